// The updates of optimizers: torch's formulas in double, and the same bits on every instruction
// set.
#include "ops/kernels/optimizer.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

using kernels::AdamUpdate;
using kernels::kUpdateStep;
using kernels::SgdUpdate;

constexpr std::size_t kElements = 3 * kUpdateStep;

std::vector<float> random_floats(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values;
  std::vector<float> made(kElements);
  for (float& one : made) one = values(random);
  return made;
}

void check_close(const std::vector<float>& got, const std::vector<double>& wanted) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(2e-6));
  }
}

}  // namespace

TEST_CASE("SGD follows torch's formula, with momentum, Nesterov's too, and the decay of weights") {
  const std::vector<float> gradient = random_floats(1);
  for (const bool nesterov : {false, true}) {
    std::vector<float> first;
    test::for_each_target([&](const ReduceKernels&) {
      std::vector<float> values = random_floats(2);
      std::vector<double> wanted(values.begin(), values.end());
      std::vector<float> momentum(kElements);
      std::vector<double> buffer(kElements);
      const SgdUpdate how{.gradient_scale = 0.5F,
                          .learning_rate = 0.1F,
                          .momentum = 0.9F,
                          .weight_decay = 0.01F,
                          .nesterov = nesterov};
      for (int step = 0; step < 3; ++step) {
        kernels::update_sgd(how, gradient, values.data(), momentum.data());
        for (std::size_t i = 0; i < kElements; ++i) {
          const double g = 0.5 * gradient[i] + 0.01 * wanted[i];
          buffer[i] = 0.9 * buffer[i] + g;
          wanted[i] -= 0.1 * (nesterov ? g + 0.9 * buffer[i] : buffer[i]);
        }
      }
      check_close(values, wanted);
      if (first.empty()) first = values;
      CHECK(values == first);
    });
  }
}

TEST_CASE("SGD without momentum needs no memory for it") {
  std::vector<float> values(kElements, 1.0F);
  const std::vector<float> gradient(kElements, 0.5F);
  kernels::update_sgd({.learning_rate = 0.5F}, gradient, values.data(), nullptr);
  CHECK(values == std::vector<float>(kElements, 0.75F));
}

TEST_CASE("Adam and AdamW follow torch's formulas") {
  for (const bool apart : {false, true}) {
    std::vector<float> first;
    test::for_each_target([&](const ReduceKernels&) {
      std::vector<float> values = random_floats(3);
      std::vector<double> wanted(values.begin(), values.end());
      std::vector<float> mean(kElements);
      std::vector<float> variance(kElements);
      std::vector<double> m(kElements);
      std::vector<double> v(kElements);
      for (int step = 1; step <= 4; ++step) {
        const std::vector<float> gradient = random_floats(10U + static_cast<unsigned>(step));
        const double mean_bias = 1 - std::pow(0.9, step);
        const double root = std::sqrt(1 - std::pow(0.999, step));
        AdamUpdate how{.mean_weight = 0.1F,
                       .beta2 = 0.999F,
                       .variance_weight = 0.001F,
                       .step_size = static_cast<float>(0.01 / mean_bias),
                       .root_correction = static_cast<float>(root),
                       .epsilon = 1e-8F};
        (apart ? how.keep : how.weight_decay) = apart ? 1 - 0.01F * 0.1F : 0.1F;
        kernels::update_adam(how, gradient, values.data(), mean.data(), variance.data());
        for (std::size_t i = 0; i < kElements; ++i) {
          const double g = gradient[i] + (apart ? 0 : 0.1 * wanted[i]);
          if (apart) wanted[i] *= 1 - 0.01 * 0.1;
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.999 * v[i] + 0.001 * g * g;
          wanted[i] -= 0.01 / mean_bias * m[i] / (std::sqrt(v[i]) / root + 1e-8);
        }
      }
      for (std::size_t i = 0; i < kElements; ++i) {
        CHECK(std::abs(values[i] - wanted[i]) <= 2e-6);
      }
      if (first.empty()) first = values;
      CHECK(values == first);
    });
  }
}

TEST_CASE("A sum of squares keeps what a double would lose, however it is cut") {
  std::vector<float> values(4 * kUpdateStep, 1.0F);
  values[0] = 0x1p40F;
  values[1] = 0x1p-20F;
  test::for_each_target([&](const ReduceKernels&) {
    const std::span<const float> all(values);
    const DoubleDouble whole = kernels::sum_of_squares(all);
    CHECK(whole.hi == 0x1p80);
    CHECK(whole.lo == 4 * kUpdateStep - 2 + 0x1p-40);
    const DoubleDouble cut = kernels::sum_of_squares(all.first(kUpdateStep)) +
                             kernels::sum_of_squares(all.subspan(kUpdateStep));
    CHECK(cut.hi == whole.hi);
    CHECK(cut.lo == whole.lo);
  });
}

TEST_CASE("A sum of squares with infinity is infinity, and with NaN it is NaN") {
  std::vector<float> values(2 * kUpdateStep, 1.0F);
  values[3] = -HUGE_VALF;
  test::for_each_target([&](const ReduceKernels&) {
    CHECK(kernels::sum_of_squares(values).hi == HUGE_VAL);
    CHECK(kernels::sum_of_squares(values).lo == 0);
  });
  values[kUpdateStep] = std::nanf("");
  test::for_each_target(
      [&](const ReduceKernels&) { CHECK(std::isnan(kernels::sum_of_squares(values).hi)); });
}

}  // namespace ronde
