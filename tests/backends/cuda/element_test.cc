#include "core/base/element.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/batched_copy.h"
#include "ops/kernels/factory.h"

namespace ronde::test {
namespace {

using namespace ronde::cuda;

constexpr DType kAll[] = {DType::kUint8,   DType::kInt8,    DType::kInt16,      DType::kInt32,
                          DType::kInt64,   DType::kFloat16, DType::kBfloat16,   DType::kFloat32,
                          DType::kFloat64, DType::kBool,    DType::kFloat8E4m3, DType::kFloat8E5m2,
                          DType::kUint16,  DType::kUint32,  DType::kUint64};

/// Bits of all kinds: for 16-bit types every one of them.
std::vector<std::byte> many_bits(DType dtype, std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    state = state * 1664525U + 1013904223U;
    bytes[i] = static_cast<std::byte>(state >> 24);
    if (dtype == DType::kBool) bytes[i] &= std::byte{1};
  }
  if (size_of(dtype) == 2) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

bool is_nan(DType dtype, const std::byte* element) {
  double value = 0;
  create_kernels()->cast(dtype, element, DType::kFloat64, &value, 1);
  return std::isnan(value);
}

/// Compares bit by bit; any NaN is as good as another.
std::size_t differences(DType dtype, const std::vector<std::byte>& a,
                        const std::vector<std::byte>& b) {
  std::size_t count = 0;
  const std::size_t size = size_of(dtype);
  for (std::size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) continue;
    if (is_floating(dtype) && is_nan(dtype, a.data() + at) && is_nan(dtype, b.data() + at)) {
      continue;
    }
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("element: a scaled copy has the bits of the CPU's kernels, for every type") {
  constexpr std::size_t kCount = 65'536;
  for (const DType dtype : kAll) {
    for (const double factor : {0.5, 0.3, -3.0, 1000.0}) {
      CAPTURE(to_string(dtype));
      CAPTURE(factor);
      const auto in = many_bits(dtype, kCount);
      std::vector<std::byte> wanted(in.size());
      std::vector<std::byte> got(in.size());
      const void* const input = in.data();
      create_kernels()->reduce({dtype, ReduceOp::kSum, {factor, 1.0}}, {&input, 1}, wanted.data(),
                               kCount);
      const bool known = visit_types(dtype, dtype, [&]<typename From, typename To>() {
        for (std::size_t i = 0; i < kCount; ++i) {
          reinterpret_cast<To*>(got.data())[i] =
              transformed<From, To>(reinterpret_cast<const From*>(in.data())[i], factor);
        }
      });
      CHECK(known);
      CHECK(differences(dtype, got, wanted) == 0);
    }
  }
}

TEST_CASE("element: a cast has the bits of the CPU's kernels, for every pair") {
  constexpr std::size_t kCount = 65'536;
  int pairs = 0;
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const auto in = many_bits(from, kCount);
      std::vector<std::byte> wanted(kCount * size_of(to));
      std::vector<std::byte> got(wanted.size());
      create_kernels()->cast(from, in.data(), to, wanted.data(), kCount);
      const bool known = visit_types(from, to, [&]<typename From, typename To>() {
        for (std::size_t i = 0; i < kCount; ++i) {
          reinterpret_cast<To*>(got.data())[i] =
              transformed<From, To>(reinterpret_cast<const From*>(in.data())[i], 1.0);
        }
      });
      if (!known) continue;
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      CHECK(differences(to, got, wanted) == 0);
      ++pairs;
    }
  }
  CHECK(pairs == 23);
}

TEST_CASE("element: what does not fit an integer saturates, and NaN gives 0") {
  CHECK(truncate_to<std::int8_t>(300.0) == 127);
  CHECK(truncate_to<std::int8_t>(-300.0F) == -128);
  CHECK(truncate_to<std::int64_t>(1e30) == std::numeric_limits<std::int64_t>::max());
  CHECK(truncate_to<std::int32_t>(-2.9) == -2);
  CHECK(truncate_to<std::int32_t>(std::nan("")) == 0);
}

}  // namespace ronde::test
