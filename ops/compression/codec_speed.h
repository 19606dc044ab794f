// How fast this machine encodes and decodes: measured, in a few milliseconds.
#pragma once

#include <cstddef>

#include "ops/compression/cost_model.h"

namespace ronde {

/// Elements that a measurement works on where nothing else is said: 1 MiB of fp32.
inline constexpr std::size_t kSpeedElements = std::size_t{1} << 18;

/// One direction of one codec at work, in seconds for each element.
struct CodecSpeed {
  double encode_s = 0;  ///< Selection, for topk and randomk; the projections, for powersgd.
  double decode_s = 0;
};

/// The best of `repeats` passes over `elements`. Threads: any; uses one core.
CodecSpeed measure_codec(CodecKind kind, std::size_t elements = kSpeedElements, int repeats = 2);

/// Seconds for each element of fp32 that memcpy takes, likewise.
double measure_memcpy(std::size_t elements = kSpeedElements, int repeats = 2);

/// What an allreduce by each of `kinds` costs the processor for each element, with its passes over
/// memory besides encoding and decoding; 0 for all others.
CodecCosts measure_codecs(std::span<const CodecKind> kinds);

}  // namespace ronde
