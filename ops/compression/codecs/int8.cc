// int8: one scale for each block, one byte for each element.
//
// Format of a block of n elements, 4 + n bytes:
//   0     fp32  scale = max |x| / 127
//   4     int8  q[n], -127 ... 127; x = q * scale
// nearest: q = rint(x / scale). stochastic: q = floor(x / scale + u), u uniform in [0, 1).
// A block whose scale would be below 2^-126 has scale 0 and zeros. A block with NaN or infinity has
// the scale NaN and zeros: all of it decodes to NaN.
// Source: Alistarh et al., "QSGD", NeurIPS 2017 (block-wise, scaled by the maximum).
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/compression/codec.h"
#include "ops/compression/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/codecs/int8.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/quantise_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

void encode_int8_here(const EncodeCall& call, const CompressionSpec& spec) {
  std::byte* to = call.frame;
  for (std::size_t begin = 0; begin < call.values.size(); begin += spec.block) {
    QuantisedBlock block;
    block.values = call.values.data() + begin;
    block.count = std::min(spec.block, call.values.size() - begin);
    block.lost = call.lost == nullptr ? nullptr : call.lost + begin;
    block.offset = call.offset + begin;
    block.key = fold_key(call.key);
    block.scale = block_scale(block.values, block.count, block.steps);
    std::memcpy(to, &block.scale, sizeof block.scale);
    to += sizeof block.scale;
    quantise_any(block, spec.stochastic, reinterpret_cast<std::int8_t*>(to));
    to += block.count;
  }
}

template <bool kAdd>
void decode_int8(const std::byte* from, std::span<float> out, std::size_t length) {
  for (std::size_t begin = 0; begin < out.size(); begin += length) {
    const std::size_t count = std::min(length, out.size() - begin);
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    from += sizeof scale;
    dequantise_block<kAdd>(reinterpret_cast<const std::int8_t*>(from), count, scale, 0,
                           out.data() + begin);
    from += count;
  }
}

void decode_int8_here(const std::byte* from, std::span<float> out, std::size_t length, bool add) {
  return add ? decode_int8<true>(from, out, length) : decode_int8<false>(from, out, length);
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(encode_int8_here);
HWY_EXPORT(decode_int8_here);

namespace {

std::size_t int8_bytes(std::size_t count, std::size_t block) {
  return count + (count + block - 1) / block * sizeof(float);
}
void encode_int8(const EncodeCall& call, const CompressionSpec& spec) {
  HWY_DYNAMIC_DISPATCH(encode_int8_here)(call, spec);
}
void decode_int8(const std::byte* frame, std::span<float> out, const CompressionSpec& spec,
                 bool add) {
  HWY_DYNAMIC_DISPATCH(decode_int8_here)(frame, out, spec.block, add);
}
constexpr FrameKernels kInt8Frames{int8_bytes, encode_int8, decode_int8};

}  // namespace
}  // namespace compression

namespace {

constexpr std::array kInt8Parameters{parameters::kBlock, parameters::kRounding, parameters::kSeed,
                                     parameters::kErrorFeedback, parameters::kResidual};

}  // namespace

constinit const CodecRow kInt8Codec{
    .name = "int8",
    .title = "Int8",
    .summary = "Eight bits for each element and a scale for each block: a quarter of the bytes",
    .defaults = {.kind = CodecKind::kInt8, .block = 512},
    .parameters = kInt8Parameters,
    .payload = Payload::kFrames,
    .rounds = 1.1,
    .wire_share = [](const CompressionSpec& spec,
                     const WireLoad&) { return 8 / 32.0 + 1 / static_cast<double>(spec.block); },
    .auto_place = AutoPlace{Accuracy::kAggressive, 2},
    .device_format = FrameFormat::kInt8,
    .frames = &compression::kInt8Frames,
};

}  // namespace ronde
#endif
