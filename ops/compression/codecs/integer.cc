// int8 and int4: one scale for each block, a whole multiple q of it for each element; x = q *
// scale.
//
// Format of a block of n elements:
//   0     fp32  scale = max |x| / 127 (int8) or / 7 (int4)
//   4     int8: n bytes q[n], -127 ... 127
//         int4: (n + 1) / 2 bytes of two elements each, q[2i] + 8 in the low half, q[2i + 1] + 8 in
//         the high half; q is -7 ... 7; for an odd n the last high half is 8
// nearest: q = rint(x / scale). stochastic: q = floor(x / scale + u), u uniform in [0, 1).
// A block whose scale would be below 2^-126 has scale 0 and zeros. A block with NaN or infinity has
// the scale NaN and zeros: all of it decodes to NaN.
// Source: Alistarh et al., "QSGD", NeurIPS 2017 (block-wise, scaled by the maximum).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/compression/codec.h"
#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/codecs/integer.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/group_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

using D8 = hn::Rebind<std::int8_t, D>;

/// One block to be rounded to whole multiples of its scale.
struct QuantisedBlock {
  const float* values = nullptr;
  std::size_t count = 0;
  float scale = 0.0F;
  float steps = 127.0F;   // the largest multiple
  std::int32_t bias = 0;  // added to each multiple
  float* lost = nullptr;  // as in EncodeCall
  std::uint64_t offset = 0;
  std::uint32_t key = 0;
};

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

constexpr std::int32_t kZero = 8;  // int4's code of a zero

using D16 = hn::CappedTag<std::uint16_t, 16>;
using DBytes = hn::Rebind<std::uint8_t, D16>;

/// Packs two codes into each byte. `codes` has room for a multiple of 32, `to` for half of it.
HWY_INLINE void pack(const std::int8_t* codes, std::size_t bytes, std::uint8_t* to) {
  const D16 d;
  const auto low = hn::Set(d, std::uint16_t{15});
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) {
    const auto pair = load_unaligned(d, codes + 2 * i);
    const auto byte = hn::Or(hn::And(pair, low), hn::ShiftRight<4>(pair));
    store_unaligned(hn::DemoteTo(DBytes(), hn::BitCast(hn::RebindToSigned<D16>(), byte)), DBytes(),
                    to + i);
  }
}

/// The inverse of pack(), with the same room.
HWY_INLINE void unpack(const std::uint8_t* from, std::size_t bytes, std::int8_t* codes) {
  const D16 d;
  const auto low = hn::Set(d, std::uint16_t{15});
  const auto high = hn::Set(d, std::uint16_t{0x0f00});
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) {
    const auto byte = hn::PromoteTo(d, load_unaligned(DBytes(), from + i));
    const auto pair = hn::Or(hn::And(byte, low), hn::And(hn::ShiftLeft<4>(byte), high));
    store_unaligned(pair, d, codes + 2 * i);
  }
}

void encode_integers_here(const EncodeCall& call, const CompressionSpec& spec) {
  const bool packs = spec.kind == CodecKind::kInt4;
  HWY_ALIGN std::int8_t codes[kMaxBlock + 32];
  HWY_ALIGN std::uint8_t packed[kMaxBlock / 2 + 16];
  std::byte* to = call.frame;
  for (std::size_t begin = 0; begin < call.values.size(); begin += spec.block) {
    QuantisedBlock block;
    block.values = call.values.data() + begin;
    block.count = std::min(spec.block, call.values.size() - begin);
    block.steps = packs ? 7.0F : 127.0F;
    block.bias = packs ? kZero : 0;
    block.lost = call.lost == nullptr ? nullptr : call.lost + begin;
    block.offset = call.offset + begin;
    block.key = fold_key(call.key);
    block.scale = block_scale(block.values, block.count, block.steps);
    std::memcpy(to, &block.scale, sizeof block.scale);
    to += sizeof block.scale;
    quantise_any(block, spec.stochastic, packs ? codes : reinterpret_cast<std::int8_t*>(to));
    const std::size_t bytes = packs ? (block.count + 1) / 2 : block.count;
    if (packs) {
      std::fill_n(codes + block.count, 32, static_cast<std::int8_t>(kZero));
      pack(codes, bytes, packed);
      std::memcpy(to, packed, bytes);
    }
    to += bytes;
  }
}

template <bool kAdd>
void decode_integers(const std::byte* from, std::span<float> out, const CompressionSpec& spec) {
  const bool packs = spec.kind == CodecKind::kInt4;
  HWY_ALIGN std::int8_t codes[kMaxBlock + 32];
  HWY_ALIGN std::uint8_t packed[kMaxBlock / 2 + 16];
  if (packs) std::memset(packed, 0, sizeof packed);
  for (std::size_t begin = 0; begin < out.size(); begin += spec.block) {
    const std::size_t count = std::min(spec.block, out.size() - begin);
    const std::size_t bytes = packs ? (count + 1) / 2 : count;
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    from += sizeof scale;
    if (packs) {
      std::memcpy(packed, from, bytes);
      unpack(packed, bytes, codes);
    }
    dequantise_block<kAdd>(packs ? codes : reinterpret_cast<const std::int8_t*>(from), count, scale,
                           packs ? kZero : 0, out.data() + begin);
    from += bytes;
  }
}

void decode_integers_here(const std::byte* from, std::span<float> out, const CompressionSpec& spec,
                          bool add) {
  return add ? decode_integers<true>(from, out, spec) : decode_integers<false>(from, out, spec);
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(encode_integers_here);
HWY_EXPORT(decode_integers_here);

namespace {

std::size_t scale_bytes(std::size_t count, std::size_t block) {
  return (count + block - 1) / block * sizeof(float);
}
std::size_t int8_bytes(std::size_t count, std::size_t block) {
  return count + scale_bytes(count, block);
}
std::size_t int4_bytes(std::size_t count, std::size_t block) {
  return (count + 1) / 2 + scale_bytes(count, block);
}
void encode_integers(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_DYNAMIC_DISPATCH(encode_integers_here)(call, spec);
}
void decode_integers(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                     bool add) {
  HWY_DYNAMIC_DISPATCH(decode_integers_here)(frame, out, spec, add);
}
constexpr FrameKernels kInt8Frames{int8_bytes, encode_integers, decode_integers};
constexpr FrameKernels kInt4Frames{int4_bytes, encode_integers, decode_integers};

}  // namespace
}  // namespace compression

namespace {

constexpr std::array kIntegerParameters{parameters::kBlock, parameters::kRounding,
                                        parameters::kSeed, parameters::kErrorFeedback,
                                        parameters::kResidual};

/// Of fp32: `bits` for each element, and a scale for each block.
double integer_share(double bits, const CompressionSpec& spec) {
  return bits / 32.0 + 1 / static_cast<double>(spec.block);
}

}  // namespace

constinit const CodecRow kInt8Codec{
    .name = "int8",
    .title = "Int8",
    .summary = "Eight bits for each element and a scale for each block: a quarter of the bytes",
    .defaults = {.kind = CodecKind::kInt8, .block = 512},
    .parameters = kIntegerParameters,
    .payload = Payload::kFrames,
    .rounds = 1.1,
    .wire_share = [](const CompressionSpec& spec,
                     const WireLoad&) { return integer_share(8, spec); },
    .auto_place = AutoPlace{Accuracy::kAggressive, 2},
    .device_format = FrameFormat::kInt8,
    .frames = &compression::kInt8Frames,
};

constinit const CodecRow kInt4Codec{
    .name = "int4",
    .title = "Int4",
    .summary = "Four bits for each element and a scale for each block: an eighth of the bytes",
    .defaults = {.kind = CodecKind::kInt4, .block = 256},
    .parameters = kIntegerParameters,
    .payload = Payload::kFrames,
    .rounds = 1.1,
    .wire_share = [](const CompressionSpec& spec,
                     const WireLoad&) { return integer_share(4, spec); },
    .auto_place = AutoPlace{Accuracy::kAggressive, 3},
    .device_format = FrameFormat::kInt4,
    .frames = &compression::kInt4Frames,
};

}  // namespace ronde
#endif
