// What an allreduce is predicted to take, dense and by each codec: pure functions of measured
// numbers on which all ranks agree, so that all choose alike.
// Source: Agarwal et al., "On the Utility of Gradient Compression", MLSys 2022; Wang et al.,
// "Espresso", EuroSys 2023.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/shape.h"
#include "ops/compression/registry.h"

namespace ronde {

/// Chooses among the other codecs.
extern const CodecRow kAutoCodec;

/// "lossless", "safe" or "aggressive".
std::string_view to_string(Accuracy accuracy);

/// Among choices the place of kAuto stands for no compression.
inline constexpr CodecKind kDense = CodecKind::kAuto;

/// What a dense allreduce takes over the link at hand.
struct LinkCost {
  double latency_s = 0;  ///< Of one that is nearly empty.
  double byte_s = 0;     ///< Of each further byte.
};

/// A dense allreduce that was timed.
struct DenseTime {
  std::size_t bytes = 0;
  double seconds = 0;
};

/// The cost of a link by allreduces of growing sizes, of which the first is nearly empty. Bandwidth
/// is the slope between the last and the one two before it: what a link lets pass at once, as
/// shapers do, is in both, and an error in one of them counts little.
LinkCost link_cost(std::span<const DenseTime> times) noexcept;

/// What the processor takes for each element, by kind; 0 for kDense.
using CodecCosts = std::array<double, kCodecKinds>;

/// What is to be sent.
struct TensorLoad {
  std::size_t width = 4;  ///< Bytes of an element.
  double elements = 0;
  double low_rank_elements = 0;  ///< That travel by powersgd of the default rank.
};

/// The load of tensors that travel together.
TensorLoad load_of(std::span<const Shape> shapes, std::size_t width);

/// What of a class may be chosen for elements of that width, the least lossy first; kDense always.
std::vector<CodecKind> candidates(Accuracy accuracy, std::size_t width);

/// Bytes that travel for each byte of fp32, both ways, counted as a dense allreduce's own.
double wire_share(CodecKind kind, const TensorLoad& load) noexcept;

/// Seconds that an allreduce of the load takes as `kind`.
double predict(CodecKind kind, const TensorLoad& load, const LinkCost& link,
               const CodecCosts& codecs) noexcept;

}  // namespace ronde
