#include "ops/compression/residuals.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace ronde {

TEST_CASE("A residual is kept by process set and tensor") {
  ResidualStore store;
  const auto first = store.find(0, "w", 4);
  CHECK(store.find(0, "w", 4) == first);
  CHECK(store.find(1, "w", 4) != first);
  CHECK(store.find(0, "v", 4) != first);
  CHECK(store.bytes() == 12 * sizeof(float));
}

TEST_CASE("A residual begins with zeros and is added and replaced in runs") {
  ResidualStore store;
  const auto residual = store.find(0, "w", 5);
  CHECK(residual->values().value() == std::vector<float>(5, 0.0F));
  residual->assign(std::vector<float>{1, 2}, 3);
  std::vector<float> values{10, 20, 30};
  residual->add_to(values, 2);
  CHECK(values == std::vector<float>{10, 21, 32});
}

TEST_CASE("A tensor of another size begins anew") {
  ResidualStore store;
  store.find(0, "w", 4)->assign(std::vector<float>{1, 1, 1, 1}, 0);
  const auto other = store.find(0, "w", 2);
  CHECK(other->values().value() == std::vector<float>{0, 0});
  CHECK(store.bytes() == 2 * sizeof(float));
}

TEST_CASE("What is saved is loaded again, steps included") {
  ResidualStore store;
  store.find(0, "b", 2)->assign(std::vector<float>{1, 2}, 0);
  const auto a = store.find(3, "a", 1);
  CHECK(a->next_step() == 0);
  CHECK(a->next_step() == 1);
  const auto saved = store.save().value();
  REQUIRE(saved.size() == 2);
  CHECK(saved[0].name == "b");
  CHECK(saved[1].set == 3);

  ResidualStore resumed;
  (void)resumed.find(0, "gone", 9);
  REQUIRE(resumed.load(saved).ok());
  CHECK(resumed.bytes() == 3 * sizeof(float));
  CHECK(resumed.find(0, "b", 2)->values().value() == std::vector<float>{1, 2});
  CHECK(resumed.find(3, "a", 1)->next_step() == 2);
}

TEST_CASE("One tensor cannot be loaded twice") {
  ResidualStore store;
  const Status status = store.load({{0, "w", 0, {1}}, {0, "w", 0, {2}}});
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("two residuals of \"w\"") != std::string::npos);
}

TEST_CASE("Beyond the limit tensors go without") {
  ResidualStore store(10 * sizeof(float));
  const auto kept = store.find(0, "a", 8);
  CHECK(kept != nullptr);
  CHECK(store.find(0, "b", 3) == nullptr);
  CHECK(store.find(0, "c", 2) != nullptr);
  CHECK(store.find(0, "a", 8) == kept);
  CHECK(store.bytes() == 10 * sizeof(float));
}

TEST_CASE("Loaded residuals beyond the limit shrink to bf16 where that is asked for") {
  ResidualStore store(10 * sizeof(float));
  const std::vector<float> held(16, 1.5F);
  REQUIRE(store.load({{0, "w", 3, held}}).ok());
  CHECK(store.bytes() == 16 * sizeof(float));
  const auto residual = store.find(0, "w", 16, ResidualFormat::kBf16);
  REQUIRE(residual != nullptr);
  CHECK(residual->values().value() == held);
  CHECK(store.bytes() == 16 * sizeof(std::uint16_t));
}

TEST_CASE("A residual in bf16 takes half the memory and keeps what bf16 holds as it is") {
  ResidualStore store;
  const auto residual = store.find(0, "w", 4, ResidualFormat::kBf16);
  CHECK(store.bytes() == 4 * sizeof(std::uint16_t));
  const std::vector<float> held{1.5F, -0.0078125F, 0, 3e38F};
  const float most = std::numeric_limits<float>::max();
  residual->assign(held, 0);
  CHECK(residual->values().value()[0] == 1.5F);
  CHECK(residual->values().value()[1] == -0.0078125F);
  residual->assign(std::vector<float>{most, -most}, 2);
  CHECK(residual->values().value()[2] > 3.38e38F);
  CHECK(residual->values().value()[3] < -3.38e38F);
  CHECK(std::isfinite(residual->values().value()[2]));
  residual->assign(std::vector<float>{INFINITY, NAN}, 0);
  CHECK(std::isinf(residual->values().value()[0]));
  CHECK(std::isnan(residual->values().value()[1]));
}

TEST_CASE("What is added to a bf16 residual step by step is not lost to rounding") {
  ResidualStore store;
  const std::size_t count = 4000;
  const auto residual = store.find(0, "w", count, ResidualFormat::kBf16);
  residual->assign(std::vector<float>(count, 1.0F), 0);
  for (int step = 0; step < 100; ++step) {  // each a thousandth: less than half a unit of bf16
    (void)residual->next_step();
    std::vector<float> values(count, 0.001F);
    residual->add_to(values, 0);
    residual->assign(values, 0);
  }
  const auto values = residual->values().value();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  CHECK(mean == doctest::Approx(1.1).epsilon(0.003));
}

TEST_CASE("A bf16 residual rounds alike in one run or several, and after a checkpoint") {
  ResidualStore store, resumed;
  std::vector<float> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1F * static_cast<float>(i);
  const auto whole = store.find(0, "w", 100, ResidualFormat::kBf16);
  (void)whole->next_step();
  REQUIRE(resumed.load(store.save().value()).ok());
  const auto parts = resumed.find(0, "w", 100, ResidualFormat::kBf16);
  CHECK(resumed.bytes() == store.bytes());
  whole->assign(values, 0);
  parts->assign(std::span(values).first(33), 0);
  parts->assign(std::span(values).subspan(33), 33);
  CHECK(parts->values().value() == whole->values().value());
}

TEST_CASE("The next job's store has what the last one's had, and sets by their new numbers") {
  ResidualStore last, next;
  last.find(0, "w", 2)->assign(std::vector<float>{1, 2}, 0);
  last.find(3, "w", 1)->assign(std::vector<float>{5}, 0);
  (void)last.find(4, "w", 1);
  (void)last.find(0, "w", 2)->next_step();
  next.take_over(last);
  CHECK(next.count() == 3);
  CHECK(next.most_steps() == 1);
  CHECK(next.bytes() == 2 * sizeof(float));
  next.rename_sets({{3, 7}});
  CHECK(next.count() == 2);
  CHECK(next.bytes() == 3 * sizeof(float));
  CHECK(next.find(0, "w", 2)->values().value() == std::vector<float>{1, 2});
  CHECK(next.find(7, "w", 1)->values().value() == std::vector<float>{5});
}

TEST_CASE("All residuals of a store, and new ones, can be put at one step") {
  ResidualStore store;
  (void)store.find(0, "w", 2);
  store.go_to_step(8);
  CHECK(store.find(0, "w", 2)->steps() == 8);
  CHECK(store.find(1, "v", 2)->steps() == 8);
  CHECK(store.most_steps() == 8);
}

TEST_CASE("A residual keeps its values and steps when its format changes") {
  ResidualStore store(4 * sizeof(float));
  store.find(0, "w", 4)->assign(std::vector<float>{1, 2, 3, 4}, 0);
  (void)store.find(0, "w", 4)->next_step();
  const auto narrow = store.find(0, "w", 4, ResidualFormat::kBf16);
  CHECK(narrow->values().value() == std::vector<float>{1, 2, 3, 4});
  CHECK(narrow->steps() == 1);
  CHECK(store.bytes() == 4 * sizeof(std::uint16_t));
  CHECK(store.find(0, "v", 4, ResidualFormat::kBf16) != nullptr);
  CHECK(store.find(0, "w", 4) == narrow);  // there is no room for fp32 any more
  CHECK(store.bytes() == 4 * sizeof(float));
}

}  // namespace ronde
