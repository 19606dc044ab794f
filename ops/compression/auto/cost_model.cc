#include "ops/compression/auto/cost_model.h"

#include <algorithm>
#include <array>
#include <variant>

#include "ops/compression/low_rank/factors.h"

namespace ronde {
namespace {

/// Elements of a tensor's factors; all of its elements if factors do not save half of them.
double low_rank_elements(const Shape& shape, std::size_t rank) {
  const auto count = static_cast<double>(element_count(shape));
  if (shape.size() < 2 || shape[0] == 0) return count;
  const auto rows = static_cast<std::size_t>(shape[0]);
  const LowRankShape matrix{rows, static_cast<std::size_t>(element_count(shape)) / rows, rank};
  return matrix.saves() ? static_cast<double>(rank * (matrix.rows + matrix.columns)) : count;
}

constexpr CodecParameter kAccuracy{
    "accuracy", "accuracy",
    "What it may lose: nothing; what 16 bits do not hold; anything, with error feedback",
    words_for<&CompressionSpec::accuracy, Accuracy::kLossless, Accuracy::kSafe,
              Accuracy::kAggressive>({"lossless", "safe", "aggressive"})};
constexpr std::array kAutoParameters{kAccuracy, parameters::kResidual};

}  // namespace

constinit const CodecRow kAutoCodec{
    .name = "auto",
    .title = "Auto",
    .summary =
        "Whichever codec, or none, is predicted to be fastest, by measuring links and codecs",
    .defaults = {.kind = CodecKind::kAuto},
    .parameters = kAutoParameters,
    .wire_share =
        [](const CompressionSpec&, const WireLoad& load) {
          return static_cast<double>(load.width) / sizeof(float);
        },
};

std::string_view to_string(Accuracy accuracy) {
  return std::get<Words>(kAccuracy.values).words[static_cast<std::size_t>(accuracy)];
}

TensorLoad load_of(std::span<const Shape> shapes, std::size_t width) {
  TensorLoad load{.width = width};
  const std::size_t rank = default_spec(CodecKind::kPowersgd).rank;
  for (const Shape& shape : shapes) {
    load.elements += static_cast<double>(element_count(shape));
    load.low_rank_elements += low_rank_elements(shape, rank);
  }
  return load;
}

LinkCost link_cost(std::span<const DenseTime> times) noexcept {
  if (times.empty()) return {};
  LinkCost cost{.latency_s = times.front().seconds};
  if (times.size() == 1) return cost;
  const DenseTime& last = times.back();
  const DenseTime& before = times[times.size() - std::min<std::size_t>(3, times.size())];
  cost.byte_s =
      std::max(0.0, last.seconds - before.seconds) / static_cast<double>(last.bytes - before.bytes);
  return cost;
}

std::vector<CodecKind> candidates(Accuracy accuracy, std::size_t width) {
  std::vector<CodecKind> kinds{kDense};
  for (std::size_t i = 0; i < kCodecKinds; ++i) {
    const auto& place = codec_row(static_cast<CodecKind>(i)).auto_place;
    if (!place || place->accuracy > accuracy) continue;
    const bool rounds_nothing = width <= 2 && place->accuracy == Accuracy::kSafe;
    if (!rounds_nothing) kinds.push_back(static_cast<CodecKind>(i));
  }
  std::sort(kinds.begin() + 1, kinds.end(), [](CodecKind a, CodecKind b) {
    return codec_row(a).auto_place->loss < codec_row(b).auto_place->loss;
  });
  return kinds;
}

double wire_share(CodecKind kind, const TensorLoad& load) noexcept {
  const double low_rank = load.elements > 0 ? load.low_rank_elements / load.elements : 0;
  return codec_row(kind).wire_share(default_spec(kind), {load.width, low_rank});
}

double predict(CodecKind kind, const TensorLoad& load, const LinkCost& link,
               const CodecCosts& codecs) noexcept {
  const double bytes = load.elements * sizeof(float) * wire_share(kind, load);
  const double computing = load.elements * codecs[static_cast<std::size_t>(kind)];
  return codec_row(kind).rounds * link.latency_s + bytes * link.byte_s + computing;
}

}  // namespace ronde
