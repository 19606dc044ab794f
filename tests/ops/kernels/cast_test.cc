// Conversions between all pairs of element types.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/kernels/reference.h"
#include "tests/ops/kernels/targets.h"

namespace ronde {
namespace {

using test::Bytes;

DType dtype_at(int index) { return static_cast<DType>(index); }

Bytes cast(DType from, const Bytes& in, DType to) {
  const std::size_t count = in.size() / size_of(from);
  test::Buffer source(in, 1);
  test::Buffer target(count * size_of(to), 1);
  create_kernels()->cast(from, source.data(), to, target.data(), count);
  return target.bytes();
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("cast: numbers that both types hold survive, between all pairs of types") {
  const Bytes most = bytes_of<std::int8_t>({0, 1, 2, 3, 7, 50, 100, 127, 0, 1, 5});
  const Bytes of_float8 = bytes_of<std::int8_t>({0, 1, 2, 3, 7, 48, 96, 112, 0, 1, 5});
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const bool float8 = is_float8(dtype_at(from)) || is_float8(dtype_at(to));
      const Bytes& numbers = float8 ? of_float8 : most;
      const Bytes source = cast(DType::kInt8, numbers, dtype_at(from));
      const Bytes target = cast(dtype_at(from), source, dtype_at(to));
      INFO(to_string(dtype_at(from)), " to ", to_string(dtype_at(to)));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const long double number = test::number(dtype_at(from), source, i);
        const bool to_bool = dtype_at(to) == DType::kBool;
        const long double want = to_bool && number != 0 ? 1 : number;
        CHECK(test::number(dtype_at(to), target, i) == want);
      }
    }
  }
}

TEST_CASE(
    "cast: fp64 to an 8-bit type is rounded once, and what is too large is as the type says") {
  const double above_tie = 1.0 + 0x1p-4 + 0x1p-40;  // fp32 would round it to the tie, then down
  const Bytes in = bytes_of<double>({above_tie, 1e9, -1e9});
  const Bytes fine = cast(DType::kFloat64, in, DType::kFloat8E4m3);
  CHECK(test::number(DType::kFloat8E4m3, fine, 0) == 1.125L);
  CHECK(std::isnan(test::number(DType::kFloat8E4m3, fine, 1)));
  const Bytes wide = cast(DType::kFloat64, in, DType::kFloat8E5m2);
  CHECK(test::number(DType::kFloat8E5m2, wide, 1) == std::numeric_limits<double>::infinity());
  CHECK(test::number(DType::kFloat8E5m2, wide, 2) == -std::numeric_limits<double>::infinity());
}

TEST_CASE("cast: fp64 to a 16-bit type is rounded once, not through fp32") {
  const double above_tie = 1.0 + 0x1p-11 + 0x1p-40;  // fp32 would round it to the tie, then down
  const double below_tie = 1.0 + 0x3p-11 - 0x1p-40;
  const Bytes halves =
      cast(DType::kFloat64, bytes_of<double>({above_tie, below_tie, -above_tie}), DType::kFloat16);
  CHECK(test::number(DType::kFloat16, halves, 0) == 1.0L + 0x1p-10L);
  CHECK(test::number(DType::kFloat16, halves, 1) == 1.0L + 0x1p-10L);
  CHECK(test::number(DType::kFloat16, halves, 2) == -1.0L - 0x1p-10L);
  const Bytes brains =
      cast(DType::kFloat64, bytes_of<double>({1.0 + 0x1p-8 + 0x1p-40}), DType::kBfloat16);
  CHECK(test::number(DType::kBfloat16, brains, 0) == 1.0L + 0x1p-7L);
}

TEST_CASE("cast: fp64 to fp32 and back, on every instruction set") {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> doubles = {0.0,   -0.0,   0.1,  -0x1p-149, 0x1p-150, 1.0 + 0x1p-24,
                                 1e300, -1e300, 1e38, infinity,  -infinity};
  for (int i = 0; i < 40; ++i) doubles.push_back(std::ldexp(1.0 + 0.7 * i, 7 * i - 149));
  test::for_each_target([&](const ReduceKernels& kernels) {
    std::vector<float> floats(doubles.size());
    kernels.cast(DType::kFloat64, doubles.data(), DType::kFloat32, floats.data(), floats.size());
    std::vector<double> back(doubles.size());
    kernels.cast(DType::kFloat32, floats.data(), DType::kFloat64, back.data(), back.size());
    for (std::size_t i = 0; i < doubles.size(); ++i) {
      CHECK(floats[i] == static_cast<float>(doubles[i]));
      CHECK(std::signbit(floats[i]) == std::signbit(doubles[i]));
      CHECK(back[i] == double{floats[i]});
    }
  });
}

TEST_CASE("cast: int64 to bfloat16 is rounded once, not through fp64") {
  const std::int64_t tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  const Bytes got =
      cast(DType::kInt64, bytes_of<std::int64_t>({tie, tie + 1, -tie - 1}), DType::kBfloat16);
  CHECK(test::number(DType::kBfloat16, got, 0) == 0x1p62L);
  CHECK(test::number(DType::kBfloat16, got, 1) == 0x1p62L + 0x1p55L);
  CHECK(test::number(DType::kBfloat16, got, 2) == -0x1p62L - 0x1p55L);
}

TEST_CASE("cast: floating types to integers truncate and saturate") {
  const Bytes got =
      cast(DType::kFloat64, bytes_of<double>({-1.9, 300.0, -300.0, 2.9}), DType::kInt8);
  CHECK(got == bytes_of<std::int8_t>({-1, 127, -128, 2}));
  const Bytes from_half =
      cast(DType::kFloat16, cast(DType::kFloat64, bytes_of<double>({-1.5, 1e9}), DType::kFloat16),
           DType::kInt32);
  CHECK(from_half == bytes_of<std::int32_t>({-1, std::numeric_limits<std::int32_t>::max()}));
}

TEST_CASE("cast: fp64 beyond a smaller type becomes infinity, and NaN stays NaN") {
  const Bytes in = bytes_of<double>({1e300, -1e300, 65519.0, 65520.0, std::nan("")});
  const Bytes half = cast(DType::kFloat64, in, DType::kFloat16);
  const auto infinity = std::numeric_limits<long double>::infinity();
  CHECK(test::number(DType::kFloat16, half, 0) == infinity);
  CHECK(test::number(DType::kFloat16, half, 1) == -infinity);
  CHECK(test::number(DType::kFloat16, half, 2) == 65504.0L);
  CHECK(test::number(DType::kFloat16, half, 3) == infinity);
  CHECK(std::isnan(test::number(DType::kFloat16, half, 4)));
}

}  // namespace ronde
