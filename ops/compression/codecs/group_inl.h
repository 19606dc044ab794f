// Block codecs walk over groups of 16 values, whatever the width of a register.
// Compiled once for each instruction set, as ops/kernels/lanes_inl.h.
#if defined(RONDE_OPS_COMPRESSION_CODECS_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_COMPRESSION_CODECS_GROUP_INL_H_
#undef RONDE_OPS_COMPRESSION_CODECS_GROUP_INL_H_
#else
#define RONDE_OPS_COMPRESSION_CODECS_GROUP_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/kernels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::load_unaligned;
using kernels::HWY_NAMESPACE::store_unaligned;

inline constexpr std::size_t kGroup = 16;

using D = hn::CappedTag<float, kGroup>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

/// Calls body(first, vector) for each vector of the values. Zeros fill up the last group.
template <class Body>
HWY_INLINE void for_vectors(const float* values, std::size_t count, const Body& body) {
  const D d;
  const std::size_t whole = count / kGroup * kGroup;
  for (std::size_t i = 0; i < whole; i += hn::Lanes(d)) body(i, load_unaligned(d, values + i));
  if (whole == count) return;
  HWY_ALIGN float padded[kGroup] = {};
  std::copy(values + whole, values + count, padded);
  for (std::size_t j = 0; j < kGroup; j += hn::Lanes(d)) {
    body(whole + j, hn::Load(d, padded + j));
  }
}

/// Stores a vector at `to + first`, up to `to + count`.
template <class DT>
HWY_INLINE void store_part(hn::Vec<DT> v, DT d, hn::TFromD<DT>* to, std::size_t first,
                           std::size_t count) {
  if (first + hn::Lanes(d) <= count) return store_unaligned(v, d, to + first);
  HWY_ALIGN hn::TFromD<DT> lanes[hn::MaxLanes(DT())];
  hn::Store(v, d, lanes);
  for (std::size_t i = first; i < count; ++i) to[i] = lanes[i - first];
}

/// The largest |value|; NaN if one is NaN or infinite.
HWY_INLINE float largest_magnitude(const float* values, std::size_t count) {
  const DI di;
  const VI magnitude = hn::Set(di, 0x7fffffff);
  VI largest = hn::Zero(di);  // magnitudes compare as their bits do; NaN is above infinity
  for_vectors(values, count, [&](std::size_t, V v) HWY_ATTR {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, v), magnitude));
  });
  const std::int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  if (bits >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
