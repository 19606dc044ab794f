// The arithmetic of int8 and int4: blocks of values as whole multiples of a scale. Compiled once
// for each instruction set.
#if defined(RONDE_OPS_COMPRESSION_CODECS_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDE_OPS_COMPRESSION_CODECS_QUANTISE_INL_H_
#undef RONDE_OPS_COMPRESSION_CODECS_QUANTISE_INL_H_
#else
#define RONDE_OPS_COMPRESSION_CODECS_QUANTISE_INL_H_
#endif

#include <cmath>

#include "ops/compression/codecs/group_inl.h"
#include "ops/compression/codecs/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

using D8 = hn::Rebind<std::int8_t, D>;

/// The block's scale: 0 if it is too small to divide by, NaN if a value is not finite.
HWY_INLINE float block_scale(const float* values, std::size_t count, float steps) {
  const float scale = largest_magnitude(values, count) / steps;
  if (scale * steps > std::numeric_limits<float>::max()) return std::nextafter(scale, 0.0F);
  return scale < std::numeric_limits<float>::min() ? 0.0F : scale;
}

/// A uniform number in [0, 1) for each element: Wellons' lowbias32 of position and key.
HWY_INLINE V random_lanes(std::uint32_t position, std::uint32_t key) {
  const DU du;
  auto x = hn::Add(hn::Mul(hn::Iota(du, position), hn::Set(du, 0x9e3779b9U)), hn::Set(du, key));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, 0x7feb352dU));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, 0x846ca68bU));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  const VI upper = hn::BitCast(DI(), hn::ShiftRight<8>(x));
  return hn::Mul(hn::ConvertTo(D(), upper), hn::Set(D(), 0x1p-24F));
}

/// The whole multiples of the scale.
template <bool kStochastic>
HWY_INLINE VI quantise_lanes(V values, V scale, float steps, std::uint32_t position,
                             std::uint32_t key) {
  const D d;
  const V multiple = hn::Div(values, scale);
  if constexpr (!kStochastic) return hn::NearestInt(multiple);
  const V whole = hn::Floor(hn::Add(multiple, random_lanes(position, key)));
  const V most = hn::Set(d, steps);
  return hn::ConvertTo(DI(), hn::Max(hn::Min(whole, most), hn::Neg(most)));
}

/// Writes the codes of one block, each plus `bias`; `block.scale` is above zero.
template <bool kStochastic>
HWY_INLINE void quantise_block(const QuantisedBlock& block, std::int8_t* codes) {
  const D d;
  const V scale = hn::Set(d, block.scale);
  const auto bias = hn::Set(DI(), block.bias);
  for_vectors(block.values, block.count, [&](std::size_t i, V v) HWY_ATTR {
    const auto position = static_cast<std::uint32_t>(block.offset + i);
    const VI q = quantise_lanes<kStochastic>(v, scale, block.steps, position, block.key);
    store_part(hn::DemoteTo(D8(), hn::Add(q, bias)), D8(), codes, i, block.count);
    if (block.lost == nullptr) return;
    const V kept = hn::Mul(hn::ConvertTo(d, q), scale);
    store_part(hn::Sub(v, kept), d, block.lost, i, block.count);
  });
}

/// Writes the codes of a block of any scale. A scale of 0 or NaN gives zeros: all values are lost.
HWY_INLINE void quantise_any(const QuantisedBlock& block, bool stochastic, std::int8_t* codes) {
  if (block.scale > 0.0F) {
    if (stochastic) return quantise_block<true>(block, codes);
    return quantise_block<false>(block, codes);
  }
  std::fill_n(codes, block.count, static_cast<std::int8_t>(block.bias));
  if (block.lost != nullptr && block.lost != block.values) {
    std::copy_n(block.values, block.count, block.lost);
  }
}

/// out = (code - bias) * scale, or added to out.
template <bool kAdd>
HWY_INLINE void dequantise_block(const std::int8_t* codes, std::size_t count, float scale,
                                 std::int32_t bias, float* out) {
  const D d;
  const V by = hn::Set(d, scale);
  const VI zero = hn::Set(DI(), bias);
  const auto one = [&](const std::int8_t* from, float* to) HWY_ATTR {
    const VI q = hn::Sub(hn::PromoteTo(DI(), load_unaligned(D8(), from)), zero);
    V v = hn::Mul(hn::ConvertTo(d, q), by);
    if constexpr (kAdd) v = hn::Add(load_unaligned(d, to), v);
    store_unaligned(v, d, to);
  };
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) one(codes + i, out + i);
  if (i == count) return;
  HWY_ALIGN std::int8_t last[kGroup] = {};
  HWY_ALIGN float values[kGroup] = {};
  std::copy(codes + i, codes + count, last);
  std::copy(out + i, out + count, values);
  one(last, values);
  std::copy_n(values, count - i, out + i);
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
