// How fast this machine encodes and decodes: measured, in a few milliseconds.
#pragma once

#include <cstddef>

#include "ops/compression/auto/cost_model.h"

namespace ronde {

/// Elements that a measurement works on where nothing else is said: 4 MiB of fp32, as gradients
/// that are worth compressing are not in a core's own caches.
inline constexpr std::size_t kSpeedElements = std::size_t{1} << 20;

/// One direction of one codec at work, in seconds for each element.
struct CodecSpeed {
  double encode_s = 0;  ///< Selection, for topk and randomk; the projections, for powersgd.
  double decode_s = 0;
};

/// The best of `repeats` passes over `elements`. Threads: any; uses one core.
CodecSpeed measure_codec(CodecKind kind, std::size_t elements = kSpeedElements, int repeats = 2);

/// Seconds for each element of fp32 that memcpy takes, likewise.
double measure_memcpy(std::size_t elements = kSpeedElements, int repeats = 2);

/// How many times as long as on a core of its own work takes that took `wall_s` and `cpu_s` of the
/// processor's time: ranks / cores where ranks outnumber cores and all work at once; at least 1.
double contention(double wall_s, double cpu_s) noexcept;

/// What an allreduce by each of `kinds` takes for each element besides its messages, with its
/// passes over memory besides encoding and decoding; 0 for all others. Each figure is the best of
/// some, as on a core of its own, times the contention of all: ranks that share cores call it at
/// once.
CodecCosts measure_codecs(std::span<const CodecKind> kinds);

}  // namespace ronde
