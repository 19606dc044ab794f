#include "ops/compression/registry.h"

#include <array>

#include "ops/compression/codecs/half.h"
#include "ops/compression/codecs/int4.h"
#include "ops/compression/codecs/int8.h"
#include "ops/compression/codecs/onebit.h"

namespace ronde {
namespace {

using Spec = CompressionSpec;

double half_share(const Spec&, const WireLoad&) { return 0.5; }

/// `bits` for each element and `scales` fp32 for each block.
template <int kBits, int kScales>
double block_share(const Spec& spec, const WireLoad&) {
  return kBits / 32.0 + kScales / static_cast<double>(spec.block);
}

// In the order of CodecKind. randomk learns too slowly to be chosen unasked.
constexpr std::array<CodecRow, kCodecKinds> kRows{{
    {CodecKind::kFp16, Payload::kFrames, 1.1, AutoPlace{Accuracy::kSafe, 0}, FrameFormat::kFp16,
     half_share, make_half_codec},
    {CodecKind::kBf16, Payload::kFrames, 1.1, AutoPlace{Accuracy::kSafe, 1}, FrameFormat::kBf16,
     half_share, make_half_codec},
    {CodecKind::kInt8, Payload::kFrames, 1.1, AutoPlace{Accuracy::kAggressive, 2},
     FrameFormat::kInt8, block_share<8, 1>, make_int8_codec},
    {CodecKind::kInt4, Payload::kFrames, 1.1, AutoPlace{Accuracy::kAggressive, 3},
     FrameFormat::kInt4, block_share<4, 1>, make_int4_codec},
    {CodecKind::kOnebit, Payload::kFrames, 1.1, AutoPlace{Accuracy::kAggressive, 6},
     FrameFormat::kOnebit, block_share<1, 2>, make_onebit_codec},
    {CodecKind::kTopk, Payload::kList, 2, AutoPlace{Accuracy::kAggressive, 5}, std::nullopt,
     [](const Spec& spec, const WireLoad&) { return 2.5 * spec.ratio; }, nullptr},
    {CodecKind::kRandomk, Payload::kList, 2, std::nullopt, std::nullopt,
     [](const Spec& spec, const WireLoad&) { return spec.ratio; }, nullptr},
    {CodecKind::kPowersgd, Payload::kFactors, 2, AutoPlace{Accuracy::kAggressive, 4}, std::nullopt,
     [](const Spec&, const WireLoad& load) { return load.low_rank; }, nullptr},
    {CodecKind::kAuto, Payload::kNone, 1, std::nullopt, std::nullopt,
     [](const Spec&, const WireLoad& load) {
       return static_cast<double>(load.width) / sizeof(float);
     },
     nullptr},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order(), "rows stand in the order of CodecKind");

}  // namespace

const CodecRow& codec_row(CodecKind kind) noexcept { return kRows[static_cast<std::size_t>(kind)]; }

std::unique_ptr<const Codec> make_codec(const CompressionSpec& spec) {
  const auto make = codec_row(spec.kind).make_host;
  return make == nullptr ? nullptr : make(spec);
}

}  // namespace ronde
