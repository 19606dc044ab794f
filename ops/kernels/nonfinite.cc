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

/// Elements before the vector with the first whose bits without the sign are at least `limit`, or
/// before the rest that fills no vector.
template <typename T>
HWY_INLINE std::size_t count_below(const std::byte* data, std::size_t count, T limit) {
  const hn::ScalableTag<T> d;
  const std::size_t step = hn::Lanes(d);
  const auto magnitude = hn::Set(d, std::numeric_limits<T>::max());
  const auto most = hn::Set(d, static_cast<T>(limit - 1));
  const auto at = [&](std::size_t i) {
    return hn::And(load_unaligned(d, data + i * sizeof(T)), magnitude);
  };
  constexpr std::size_t kSteps = 16;  // between two looks at what was found
  std::size_t i = 0;
  for (; i + kSteps * step <= count; i += kSteps * step) {
    auto even = at(i);
    auto odd = at(i + step);
    for (std::size_t k = 2; k < kSteps; k += 2) {
      even = hn::Max(even, at(i + k * step));
      odd = hn::Max(odd, at(i + (k + 1) * step));
    }
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(hn::Max(even, odd), most)))) break;
  }
  while (i + step <= count && hn::AllFalse(d, hn::Gt(at(i), most))) i += step;
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
