// Measures codecs, and predicts the time of an allreduce, dense and by each of them. Predictions
// are pure functions of measured numbers that all ranks agree on, so that all choose alike. Source:
// Agarwal et al., "On the Utility of Gradient Compression", MLSys 2022; Wang et al., "Espresso",
// EuroSys 2023.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "ops/compression/registry.h"

namespace ronde {

/// Among choices the place of kAuto stands for no compression.
inline constexpr CodecKind kDense = CodecKind::kAuto;

/// The time of a dense allreduce over a link.
struct LinkCost {
  double latency_s = 0;  ///< An allreduce of nearly no bytes.
  double byte_s = 0;     ///< Each further byte.
};

/// A dense allreduce that was timed.
struct DenseTime {
  std::size_t bytes = 0;
  double seconds = 0;
};

/// The cost of a link from allreduces of growing sizes; the first is nearly empty. Bandwidth is the
/// slope between the last and the one two before it. Both contain the burst that a traffic shaper
/// lets pass, and an error in one of them counts little.
LinkCost link_cost(std::span<const DenseTime> times) noexcept;

/// Seconds of processor time for each element, by kind; 0 for kDense.
using CodecCosts = std::array<double, kCodecKinds>;

/// Tensors to be sent together.
struct TensorLoad {
  std::size_t width = 4;  ///< Bytes of an element.
  double elements = 0;
  double low_rank_elements = 0;  ///< Sent by powersgd of the default rank.
};

/// The load of tensors that travel together.
TensorLoad load_of(std::span<const Shape> shapes, std::size_t width);

/// The choices of a class for elements of a width, of the codecs that a collective allows, the
/// least lossy first. kDense is always one.
std::vector<CodecKind> candidates(Accuracy accuracy, std::size_t width,
                                  Codecs allowed = Codecs::kAny);

/// Bytes that travel for each byte of fp32, both ways, counted as a dense allreduce's own.
double wire_share(CodecKind kind, const TensorLoad& load) noexcept;

/// Seconds that an allreduce of the load by `kind` takes.
double predict(CodecKind kind, const TensorLoad& load, const LinkCost& link,
               const CodecCosts& codecs) noexcept;

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
