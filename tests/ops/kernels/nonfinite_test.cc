// The search for the first value that is not finite, against a plain loop over values.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/dtype.h"
#include "tests/ops/kernels/targets.h"
#include "tests/support/plain_kernels.h"

namespace ronde {
namespace {

constexpr DType kFloats[] = {DType::kFloat16, DType::kBfloat16,   DType::kFloat32,
                             DType::kFloat64, DType::kFloat8E4m3, DType::kFloat8E5m2};

/// Any bits, with about one in `rare` left as they are; others are made finite.
std::vector<std::byte> drawn_bits(DType dtype, std::size_t count, std::uint32_t rare,
                                  std::mt19937& random) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  const std::size_t top = size_of(dtype) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte& sign_and_exponent = bytes[i * size_of(dtype) + top];
    if (random() % rare != 0) sign_and_exponent &= std::byte{0xBF};  // below the largest exponent
  }
  return bytes;
}

void put_value(DType dtype, std::vector<std::byte>& bytes, std::size_t at, double value) {
  test::plain_kernels()->cast(DType::kFloat64, &value, dtype, &bytes[at * size_of(dtype)], 1);
}

}  // namespace

TEST_CASE("first_nonfinite: finds in drawn bits what a plain loop finds") {
  const auto plain = test::plain_kernels();
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::mt19937 random(1);
    for (const DType dtype : kFloats) {
      for (int turn = 0; turn < 400; ++turn) {
        const std::size_t count = random() % 3000;
        const std::size_t skipped = random() % 64;
        std::vector<std::byte> bytes =
            drawn_bits(dtype, count + 64, turn % 2 == 0 ? 8 : 3000, random);
        const std::byte* const data = bytes.data() + skipped;  // of any alignment
        for (const bool only_nan : {false, true}) {
          CHECK(kernels.first_nonfinite(dtype, data, count, only_nan) ==
                plain->first_nonfinite(dtype, data, count, only_nan));
        }
      }
    }
  });
}

TEST_CASE("first_nonfinite: every place of NaN and of infinities is found") {
  test::for_each_target([](const ReduceKernels& kernels) {
    for (const DType dtype : kFloats) {
      for (const std::size_t count : {1U, 17U, 333U, 1030U}) {
        for (std::size_t at = 0; at < count; ++at) {
          std::vector<std::byte> bytes(count * size_of(dtype));
          put_value(dtype, bytes, at, std::nan(""));
          CHECK(kernels.first_nonfinite(dtype, bytes.data(), count, true) == at);
          CHECK(kernels.first_nonfinite(dtype, bytes.data(), at, false) == at);
          if (dtype == DType::kFloat8E4m3) continue;  // has no infinities
          put_value(dtype, bytes, at, at % 2 == 0 ? INFINITY : -INFINITY);
          CHECK(kernels.first_nonfinite(dtype, bytes.data(), count, false) == at);
          CHECK(kernels.first_nonfinite(dtype, bytes.data(), count, true) == count);
        }
      }
    }
  });
}

TEST_CASE("first_nonfinite: the largest, the smallest and integers are finite") {
  test::for_each_target([](const ReduceKernels& kernels) {
    for (const DType dtype : kFloats) {
      std::vector<std::byte> all;  // 8- and 16-bit types: every finite value
      const std::uint32_t last = size_of(dtype) == 1 ? 0x7F : 0x7FFF;
      for (std::uint32_t bits = 0; bits <= last; ++bits) {
        std::byte element[8] = {};
        std::memcpy(element + (size_of(dtype) > 2 ? size_of(dtype) - 2 : 0), &bits,
                    std::min<std::size_t>(2, size_of(dtype)));
        double value = 0;
        kernels.cast(dtype, element, DType::kFloat64, &value, 1);
        if (std::isfinite(value)) all.insert(all.end(), element, element + size_of(dtype));
      }
      const std::size_t count = all.size() / size_of(dtype);
      CHECK(kernels.first_nonfinite(dtype, all.data(), count, false) == count);
    }
    const std::vector<std::byte> ones(64, std::byte{0xFF});
    CHECK(kernels.first_nonfinite(DType::kInt32, ones.data(), 16, false) == 16);
  });
}

}  // namespace ronde
