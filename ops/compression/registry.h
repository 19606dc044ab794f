// The registry of codecs: one row holds what the rest of the library asks about a codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/frame_format.h"
#include "ops/compression/codec.h"

namespace ronde {

/// How the values of a codec travel.
enum class Payload : std::uint8_t {
  kNone,     ///< auto: another row is chosen.
  kFrames,   ///< All elements, rounded: codecs/quantised_allreduce.h.
  kList,     ///< Chosen elements: sparse/allreduce.h.
  kFactors,  ///< Two thin matrices: low_rank/allreduce.h.
};

/// The place of a codec among the choices of `auto`.
struct AutoPlace {
  Accuracy accuracy = Accuracy::kAggressive;  ///< The strictest class that allows it.
  int loss = 0;                               ///< Less lossy codecs are tried first.
};

/// What a prediction knows about tensors.
struct WireLoad {
  std::size_t width = 4;  ///< Bytes of an element.
  double low_rank = 1;    ///< Share of the elements that travel by powersgd of the default rank.
};

/// One codec. Names and parameters are in spec.cc.
struct CodecRow {
  CodecKind kind = CodecKind::kAuto;
  Payload payload = Payload::kNone;
  double rounds = 1;  ///< Messages that follow on one another, by those of a dense allreduce.
  std::optional<AutoPlace> auto_place;       ///< Empty: `auto` never chooses it.
  std::optional<FrameFormat> device_format;  ///< Empty: devices have no kernels for its frames.
  /// Bytes that travel for each byte of fp32, both ways, counted as a dense allreduce's own.
  double (*wire_share)(const CompressionSpec& spec, const WireLoad& load) = nullptr;
  /// Makes the codec; null for payloads other than frames.
  std::unique_ptr<const Codec> (*make_host)(const CompressionSpec& spec) = nullptr;
};

/// The row of a kind. Threads: any.
const CodecRow& codec_row(CodecKind kind) noexcept;

}  // namespace ronde
