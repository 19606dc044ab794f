// top-k's arithmetic on the device, run thread by thread on the CPU, against what ops/ chooses: the
// same elements, the same frames, the same residual.
#include "backends/cuda/top.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cuda/kernels.h"
#include "ops/compression/sparse/frame.h"
#include "ops/compression/sparse/select.h"
#include "tests/support/cuda_fake/cudart_fake.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/volume.h"

namespace ronde::test {
namespace {

using Floats = std::vector<float>;

constexpr std::uint32_t kNobodys = 0xcdcdcdcdU;
// Around a row, a chunk, a tile, what one thread scans, and beyond the CPU's own sampling.
constexpr std::size_t kCounts[] = {1, 2, 31, 33, 255, 2047, 2048, 2049, 5000, 20'011, 600'000};

/// The selected elements, and the residual.
struct Chosen {
  SparseVector vector;
  Floats left;
};

/// The CPU's: factor * values + residual, then the k largest leave.
Chosen on_cpu(const Floats& values, float factor, const Floats* residual, std::size_t k) {
  Chosen chosen{.vector = {}, .left = values};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (factor != 1.0F) chosen.left[i] *= factor;
    if (residual != nullptr) chosen.left[i] += (*residual)[i];
  }
  select_top(chosen.left, k, chosen.vector.indices);
  for (const std::uint32_t index : chosen.vector.indices) {
    chosen.vector.values.push_back(chosen.left[index]);
    chosen.left[index] = 0.0F;
  }
  return chosen;
}

/// The values as the device gets them, where they are not of fp32.
struct Given {
  const void* values = nullptr;
  DType type = DType::kFloat32;
};

/// The device's, with lists that must not grow beyond k.
Chosen here(const Floats& values, float factor, const Floats* residual, std::size_t k,
            const Given& narrow) {
  Chosen chosen{.vector = {}, .left = Floats(values.size(), std::bit_cast<float>(kNobodys))};
  const float* given = residual == nullptr ? nullptr : residual->data();
  if (residual != nullptr && k % 2 == 1) {  // in place
    chosen.left = *residual;
    given = chosen.left.data();
  }
  chosen.vector.indices.assign(k + 1, kNobodys);
  chosen.vector.values.resize(k + 1);
  std::uint32_t found = kNobodys;
  std::vector<std::byte> scratch(cuda::select_scratch(values.size()), std::byte{0xcd});
  const SelectRun run{.values = narrow.values == nullptr ? values.data() : narrow.values,
                      .residual = given,
                      .left = chosen.left.data(),
                      .indices = chosen.vector.indices.data(),
                      .chosen = chosen.vector.values.data(),
                      .found = &found,
                      .scratch = scratch.data(),
                      .factor = factor,
                      .count = values.size(),
                      .most = k};
  REQUIRE(cuda::launch_select({.from = narrow.type, .runs = {&run, 1}}, nullptr) == cudaSuccess);
  cuda_fake::finish(nullptr);
  REQUIRE(found <= k);
  CHECK(chosen.vector.indices[found] == kNobodys);
  chosen.vector.indices.resize(found);
  chosen.vector.values.resize(found);
  return chosen;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_one(const Floats& values, float factor, const Floats* residual, std::size_t k,
               const Given& narrow = {}) {
  CAPTURE(values.size());
  CAPTURE(factor);
  CAPTURE(residual != nullptr);
  CAPTURE(k);
  const Chosen expected = on_cpu(values, factor, residual, k);
  const Chosen chosen = here(values, factor, residual, k, narrow);
  REQUIRE(chosen.vector.indices == expected.vector.indices);
  CHECK(same_bits(chosen.vector.values, expected.vector.values));
  CHECK(same_bits(chosen.left, expected.left));
  std::vector<std::byte> frame;
  std::vector<std::byte> expected_frame;
  encode_sparse(chosen.vector, values.size(), frame);
  encode_sparse(expected.vector, values.size(), expected_frame);
  CHECK(frame == expected_frame);
}

/// Chooses each number of elements that matters. Of many values, which take seconds each, it
/// chooses one number a call, in turn.
void check(const Floats& values) {
  const std::size_t n = values.size();
  const std::array<std::size_t, 6> numbers{0, 1, n / 100 + 1, n / 2, n, n + 5};
  if (n > 100'000 && !runs_volumes()) {
    static std::size_t turn = 0;
    return check_one(values, 1.0F, nullptr, numbers[turn++ % numbers.size()]);
  }
  for (const std::size_t k : numbers) check_one(values, 1.0F, nullptr, k);
}

Floats normal_values(std::size_t count, float magnitude = 1.0F) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random) * magnitude;
  return values;
}

}  // namespace

TEST_CASE("top-k on the device: chooses what the CPU chooses of random values") {
  for (const std::size_t count : kCounts) check(normal_values(count));
}

TEST_CASE("top-k on the device: a factor and a residual join first, and what is left stays") {
  for (const std::size_t count : kCounts) {
    Floats residual = normal_values(count, 0.3F);
    for (const float factor : {1.0F, 0.25F, 0.3F}) {
      check_one(normal_values(count), factor, &residual, count / 100 + 1);
      check_one(normal_values(count), factor, nullptr, count / 50 + 1);
    }
  }
}

TEST_CASE("top-k on the device: step after step, what was left comes with the next") {
  const Floats values = normal_values(5000);
  Floats residual(values.size());
  for (int step = 0; step < 5; ++step) {
    check_one(values, 1.0F, &residual, 50);
    residual = on_cpu(values, 1.0F, &residual, 50).left;
  }
}

TEST_CASE("top-k on the device: of equal magnitudes the first are chosen") {
  for (const std::size_t count : kCounts) {
    Floats values(count, -2.0F);
    check(values);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7 % 5) - 2.0F;
    check(values);
  }
}

TEST_CASE("top-k on the device: zeros are never chosen, of whichever sign") {
  for (const std::size_t count : kCounts) {
    Floats values(count);
    check(values);
    for (std::size_t i = 0; i < count; i += 2) values[i] = -0.0F;
    check(values);
    values[count / 3] = 1e-45F;
    values[count - 1] = -3.0F;
    check(values);
  }
}

TEST_CASE("top-k on the device: infinity is large and NaN larger, by their bits") {
  for (const std::size_t count : kCounts) {
    Floats values = normal_values(count);
    values[count / 2] = std::numeric_limits<float>::infinity();
    values[count / 3] = -std::numeric_limits<float>::infinity();
    check(values);
    values[count / 4] = std::numeric_limits<float>::quiet_NaN();
    values[count - 1] = std::bit_cast<float>(0xffffffffU);
    check(values);
  }
}

TEST_CASE("top-k on the device: any bits at all, denormals, and magnitudes that share digits") {
  std::mt19937 random(5);
  for (const std::size_t count : kCounts) {
    for (const std::uint32_t mask : {0xffffffffU, 0x807fffffU, 0x800003ffU, 0x7ff00000U}) {
      Floats values(count);
      for (float& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
      }
      check(values);
      for (float& value : values) {
        value = std::bit_cast<float>(0x3f800000U | (static_cast<std::uint32_t>(random()) & 0x3ffU));
      }
      check(values);
    }
  }
}

TEST_CASE("top-k on the device: values of 16 and 64 bits are those that the CPU's casts make") {
  for (const DType type : {DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    for (const std::size_t count : kCounts) {
      const Floats values = normal_values(count);
      std::vector<std::byte> given(count * size_of(type));
      plain_kernels()->cast(DType::kFloat32, values.data(), type, given.data(), count);
      Floats cast(count);
      plain_kernels()->cast(type, given.data(), DType::kFloat32, cast.data(), count);
      const Floats residual = normal_values(count, 0.3F);
      check_one(cast, 0.3F, &residual, count / 50 + 1, {given.data(), type});
    }
  }
}

}  // namespace ronde::test
