// The first value of a floating type that is not finite, for each instruction set. Integers compare
// as magnitudes do: infinity is the smallest that is not finite, and every NaN is larger.
#include <cstring>
#include <limits>

#include "ops/kernels/entries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/nonfinite.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "ops/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::kernels::HWY_NAMESPACE {

constexpr std::size_t kTogether = 16;  // vectors

/// True if all elements of kTogether vectors are below `limit`, their signs left out.
template <typename T>
HWY_INLINE bool all_below(const std::byte* data, T limit) {
  const hn::ScalableTag<T> d;
  const std::size_t bytes = hn::Lanes(d) * sizeof(T);
  const auto magnitude = hn::Set(d, std::numeric_limits<T>::max());
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  for (std::size_t k = 0; k < kTogether; k += 2) {
    even = hn::Max(even, hn::And(load_unaligned(d, data + k * bytes), magnitude));
    odd = hn::Max(odd, hn::And(load_unaligned(d, data + (k + 1) * bytes), magnitude));
  }
  return hn::AllFalse(d, hn::Gt(hn::Max(even, odd), hn::Set(d, static_cast<T>(limit - 1))));
}

/// The same by sums, which take half the time: not finite if one of their terms is not. False, too,
/// where finite terms are so large that their sum is not.
template <typename Float>
HWY_INLINE bool all_finite(const std::byte* data) {
  const hn::ScalableTag<Float> d;
  const std::size_t bytes = hn::Lanes(d) * sizeof(Float);
  const auto at = [&](std::size_t k) { return load_unaligned(d, data + k * bytes); };
  auto s0 = at(0);
  auto s1 = at(1);
  auto s2 = at(2);
  auto s3 = at(3);
  for (std::size_t k = 4; k < kTogether; k += 4) {
    s0 = hn::Add(s0, at(k));
    s1 = hn::Add(s1, at(k + 1));
    s2 = hn::Add(s2, at(k + 2));
    s3 = hn::Add(s3, at(k + 3));
  }
  const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const auto nothing = hn::Sub(sum, sum);  // NaN where the sum is not finite
  return hn::AllTrue(d, hn::Eq(nothing, nothing));
}

/// True for vectors with nothing to find.
template <typename T>
HWY_INLINE bool passes(const std::byte* data, T limit) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return all_finite<float>(data);
  } else if constexpr (sizeof(T) == sizeof(double)) {
    return all_finite<double>(data);
  } else {
    return all_below(data, limit);
  }
}

/// Elements before the vector with the first whose bits without the sign are at least `limit`, or
/// before the rest that fills no vector.
template <typename T>
HWY_INLINE std::size_t count_below(const std::byte* data, std::size_t count, T limit) {
  const hn::ScalableTag<T> d;
  const std::size_t step = hn::Lanes(d);
  const auto magnitude = hn::Set(d, std::numeric_limits<T>::max());
  const auto most = hn::Set(d, static_cast<T>(limit - 1));
  std::size_t i = 0;
  while (i + kTogether * step <= count && passes(data + i * sizeof(T), limit)) {
    i += kTogether * step;
  }
  for (; i + step <= count; i += step) {
    const auto bits = hn::And(load_unaligned(d, data + i * sizeof(T)), magnitude);
    if (!hn::AllFalse(d, hn::Gt(bits, most))) break;
  }
  return i;
}

template <typename T>
std::size_t first_at_least(const void* data, std::size_t count, T limit) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  std::size_t i = count_below(bytes, count, limit);
  for (; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if ((value & std::numeric_limits<T>::max()) >= limit) break;
  }
  return i;
}

/// `above`: 1 where infinity does not count.
std::size_t first_nonfinite_here(DType dtype, const void* data, std::size_t count, int above) {
  switch (dtype) {
    case DType::kFloat16:
      return first_at_least(data, count, static_cast<std::int16_t>(0x7C00 + above));
    case DType::kBfloat16:
      return first_at_least(data, count, static_cast<std::int16_t>(0x7F80 + above));
    case DType::kFloat32:
      return first_at_least(data, count, std::int32_t{0x7F800000} + above);
    case DType::kFloat64:
      return first_at_least(data, count, std::int64_t{0x7FF0000000000000} + above);
    case DType::kFloat8E4m3:  // has no infinities, and one NaN
      return first_at_least(data, count, std::int8_t{0x7F});
    case DType::kFloat8E5m2:
      return first_at_least(data, count, static_cast<std::int8_t>(0x7C + above));
    default:
      return count;
  }
}

}  // namespace ronde::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde::kernels {

HWY_EXPORT(first_nonfinite_here);

std::size_t first_nonfinite(DType dtype, const void* data, std::size_t count, bool only_nan) {
  return HWY_DYNAMIC_DISPATCH(first_nonfinite_here)(dtype, data, count, only_nan ? 1 : 0);
}

}  // namespace ronde::kernels
#endif
