#include "ops/compression/registry.h"

#include <algorithm>

#include "ops/compression/codec.h"

namespace ronde {
namespace {

/// True if `auto` may choose a codec for a class.
bool may_choose(Accuracy accuracy, const CodecRow& row) {
  return row.auto_place && row.auto_place->accuracy <= accuracy;
}

}  // namespace

const CodecRow& codec_row(CodecKind kind) noexcept {
  return *kCodecRows[static_cast<std::size_t>(kind)];
}

bool runs_on_devices(const CompressionSpec& spec) noexcept {
  const CodecRow& row = codec_row(spec.kind);
  if (spec.error_feedback && spec.residual == ResidualFormat::kBf16) return false;
  return row.device_format || (row.device_selects != nullptr && row.device_selects(spec));
}

std::unique_ptr<const Codec> make_codec(const CompressionSpec& spec) {
  const FrameKernels* const frames = codec_row(spec.kind).frames;
  return frames == nullptr ? nullptr : std::make_unique<const Codec>(spec, *frames);
}

std::string_view codec_name(CodecKind kind) noexcept { return codec_row(kind).name; }

CompressionSpec default_spec(CodecKind kind) noexcept { return codec_row(kind).defaults; }

bool begins_dense(const CompressionSpec& spec) noexcept {
  return spec.warmup > 0 && codec_row(spec.kind).warmup == WarmUpForm::kDense;
}

bool is_sparse(CodecKind kind) noexcept { return codec_row(kind).payload == Payload::kList; }

bool sends_little(const CompressionSpec& spec) noexcept {
  const CodecRow& row = codec_row(spec.kind);
  if (row.payload != Payload::kNone) return row.sends_little;
  return std::any_of(kCodecRows.begin(), kCodecRows.end(), [&](const CodecRow* choice) {
    return choice->sends_little && may_choose(spec.accuracy, *choice);
  });
}

std::size_t fewest_elements(const CompressionSpec& spec) noexcept {
  return sends_little(spec) ? 16384 : 4096;
}

}  // namespace ronde
