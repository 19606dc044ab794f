// Measures how fast this machine encodes and decodes, in a few milliseconds.
#pragma once

#include <cstddef>

#include "ops/compression/auto/cost_model.h"

namespace ronde {

/// Elements of a measurement: 4 MiB of fp32. Large gradients are not in a core's caches either.
inline constexpr std::size_t kSpeedElements = std::size_t{1} << 20;

/// Seconds that one core takes for each element.
struct CodecSpeed {
  double encode_s = 0;  ///< Lists: selection. Factors: projections.
  double decode_s = 0;
};

/// The best of `repeats` passes over `elements`. Threads: any; uses one core.
CodecSpeed measure_codec(CodecKind kind, std::size_t elements = kSpeedElements, int repeats = 2);

/// Seconds that memcpy takes for each element of fp32: the best of `repeats` passes.
double measure_memcpy(std::size_t elements = kSpeedElements, int repeats = 2);

/// Wall time by processor time, at least 1: how much longer work takes than on a core of its own.
/// It is ranks / cores if ranks outnumber cores and all work at once.
double contention(double wall_s, double cpu_s) noexcept;

/// Seconds of processor time that an allreduce by each of `kinds` takes for each element: encoding,
/// decoding and other passes over memory. 0 for other kinds. Each is the best of some, times the
/// contention of all. Ranks that share cores call it at once.
CodecCosts measure_codecs(std::span<const CodecKind> kinds);

}  // namespace ronde
