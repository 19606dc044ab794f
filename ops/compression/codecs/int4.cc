// int4: one scale for each block, half a byte for each element.
//
// Format of a block of n elements, 4 + (n + 1) / 2 bytes:
//   0     fp32  scale = max |x| / 7
//   4     two elements in a byte: q[2i] + 8 in the low half, q[2i + 1] + 8 in the high half;
//         q is -7 ... 7, x = q * scale; for an odd n the last high half is 8
// Rounding, small scales, NaN and infinity: as in int8.cc.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/compression/codec.h"
#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/codecs/int4.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/quantise_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

constexpr std::int32_t kZero = 8;  // the code of a zero

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

void encode_int4_here(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_ALIGN std::int8_t codes[kMaxBlock + 32];
  HWY_ALIGN std::uint8_t packed[kMaxBlock / 2 + 16];
  std::byte* to = call.frame;
  for (std::size_t begin = 0; begin < call.values.size(); begin += spec.block) {
    QuantisedBlock block;
    block.values = call.values.data() + begin;
    block.count = std::min(spec.block, call.values.size() - begin);
    block.steps = 7.0F;
    block.bias = kZero;
    block.lost = call.lost == nullptr ? nullptr : call.lost + begin;
    block.offset = call.offset + begin;
    block.key = fold_key(call.key);
    block.scale = block_scale(block.values, block.count, block.steps);
    std::memcpy(to, &block.scale, sizeof block.scale);
    quantise_any(block, spec.stochastic, codes);
    std::fill_n(codes + block.count, 32, static_cast<std::int8_t>(kZero));
    const std::size_t bytes = (block.count + 1) / 2;
    pack(codes, bytes, packed);
    std::memcpy(to + sizeof block.scale, packed, bytes);
    to += sizeof block.scale + bytes;
  }
}

template <bool kAdd>
void decode_int4(const std::byte* from, std::span<float> out, std::size_t length) {
  HWY_ALIGN std::int8_t codes[kMaxBlock + 32];
  HWY_ALIGN std::uint8_t packed[kMaxBlock / 2 + 16] = {};
  for (std::size_t begin = 0; begin < out.size(); begin += length) {
    const std::size_t count = std::min(length, out.size() - begin);
    const std::size_t bytes = (count + 1) / 2;
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    std::memcpy(packed, from + sizeof scale, bytes);
    unpack(packed, bytes, codes);
    dequantise_block<kAdd>(codes, count, scale, kZero, out.data() + begin);
    from += sizeof scale + bytes;
  }
}

void decode_int4_here(const std::byte* from, std::span<float> out, std::size_t length, bool add) {
  return add ? decode_int4<true>(from, out, length) : decode_int4<false>(from, out, length);
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(encode_int4_here);
HWY_EXPORT(decode_int4_here);

namespace {

std::size_t int4_bytes(std::size_t count, std::size_t block) {
  return (count + 1) / 2 + (count + block - 1) / block * sizeof(float);
}
void encode_int4(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_DYNAMIC_DISPATCH(encode_int4_here)(call, spec);
}
void decode_int4(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                 bool add) {
  HWY_DYNAMIC_DISPATCH(decode_int4_here)(frame, out, spec.block, add);
}
constexpr FrameKernels kInt4Frames{int4_bytes, encode_int4, decode_int4};

}  // namespace
}  // namespace compression

namespace {

constexpr std::array kInt4Parameters{parameters::kBlock, parameters::kRounding, parameters::kSeed,
                                     parameters::kErrorFeedback, parameters::kResidual};

}  // namespace

constinit const CodecRow kInt4Codec{
    .name = "int4",
    .title = "Int4",
    .summary = "Four bits for each element and a scale for each block: an eighth of the bytes",
    .defaults = {.kind = CodecKind::kInt4, .block = 256},
    .parameters = kInt4Parameters,
    .payload = Payload::kFrames,
    .rounds = 1.1,
    .wire_share = [](const CompressionSpec& spec,
                     const WireLoad&) { return 4 / 32.0 + 1 / static_cast<double>(spec.block); },
    .auto_place = AutoPlace{Accuracy::kAggressive, 3},
    .device_format = FrameFormat::kInt4,
    .frames = &compression::kInt4Frames,
};

}  // namespace ronde
#endif
