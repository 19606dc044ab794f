#include "ops/compression/sparse/codecs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/compression/registry.h"

namespace ronde {
namespace {

using Spec = CompressionSpec;

constexpr CodecParameter kSelect{
    "select", "sampled", "Selects by a threshold from a sample: about the ratio, never more",
    words_for<&Spec::sampled, false, true>({"exact", "sampled"})};
constexpr CodecParameter kMomentum{
    "momentum", "momentum",
    "Momentum correction, to be used instead of the optimizer's momentum; 0 means none",
    RealNumbers{.member = &Spec::momentum, .most = 1, .without_most = true}};
constexpr CodecParameter kNesterov{"nesterov", "nesterov", "Nesterov's form of momentum correction",
                                   kOnOff<&Spec::nesterov>};
constexpr CodecParameter kMasking{"masking", "masking",
                                  "Elements that were sent begin again without momentum",
                                  kOnOff<&Spec::masking>};
constexpr CodecParameter kStagedWarmup{
    "warmup", "warmup",
    "Steps that send more: all in the first sixteenth of them, then a quarter, and less",
    WholeNumbers{&Spec::warmup}};
constexpr CodecParameter kClip{
    "clip", "clip",
    "Largest norm of a tensor's result: each rank's part is clipped to clip / sqrt(ranks); 0 "
    "means any",
    RealNumbers{&Spec::clip}};

constexpr std::array kTopkParameters{parameters::kRatio,
                                     kSelect,
                                     kMomentum,
                                     kNesterov,
                                     kMasking,
                                     kStagedWarmup,
                                     kClip,
                                     parameters::kErrorFeedback,
                                     parameters::kResidual};
constexpr std::array kRandomkParameters{parameters::kRatio, parameters::kWarmup, parameters::kSeed,
                                        parameters::kErrorFeedback, parameters::kResidual};

std::string_view conflict_of_momentum(const Spec& spec) {
  if (spec.momentum > 0 && !spec.error_feedback) {
    return "momentum needs ef=on: it is kept with what is left over";
  }
  if (spec.nesterov && spec.momentum == 0) return "nesterov=on needs a momentum";
  return {};
}

}  // namespace

constinit const CodecRow kTopkCodec{
    .name = "topk",
    .title = "TopK",
    .summary = "The elements of largest magnitude; the others stay in the residual",
    .defaults = {.kind = CodecKind::kTopk, .ratio = 0.01},
    .parameters = kTopkParameters,
    .conflict = conflict_of_momentum,
    .payload = Payload::kList,
    .sends_little = true,
    .training_warmup = 1600,  // the bytes of 200 dense steps where ratio is 1/64 or less
    .warmup = WarmUpForm::kStaged,
    .rounds = 2,
    .wire_share = [](const Spec& spec, const WireLoad&) { return 2.5 * spec.ratio; },
    .auto_place = AutoPlace{Accuracy::kAggressive, 5},
    .device_selects =
        [](const Spec& spec) { return !spec.sampled && spec.momentum == 0 && spec.clip == 0; },
};

constinit const CodecRow kRandomkCodec{
    .name = "randomk",
    .title = "RandomK",
    .summary =
        "Elements drawn at random, the same on all ranks, so that no index travels; without "
        "error feedback right on average",
    .defaults = {.kind = CodecKind::kRandomk, .ratio = 0.01},
    .parameters = kRandomkParameters,
    .payload = Payload::kList,
    .sends_little = true,
    .draws = true,
    .training_warmup = 200,
    .rounds = 2,
    .wire_share = [](const Spec& spec, const WireLoad&) { return spec.ratio; },
};

double ratio_at(const Spec& spec, std::uint64_t step) noexcept {
  if (step >= spec.warmup) return spec.ratio;
  double share = 1;
  for (std::uint64_t shrunk = 16 * step; shrunk >= spec.warmup; shrunk /= 2) share /= 4;
  return std::max(spec.ratio, share);
}

std::size_t chosen_elements(double ratio, std::size_t count) noexcept {
  const double exact = std::ceil(ratio * static_cast<double>(count) - 1e-9);
  return std::clamp<std::size_t>(static_cast<std::size_t>(exact), std::min<std::size_t>(1, count),
                                 count);
}

SparseShare share_of(const CompressionSpec& spec, const CompressedTensor& tensor) noexcept {
  const bool keeps = tensor.residual != nullptr || !spec.error_feedback;
  return {keeps, keeps ? ratio_at(spec, tensor.step) : 1.0};
}

SparsePiece piece_of(const CompressionSpec& spec, const SparseShare& share, const Interleave& deal,
                     std::size_t rank) noexcept {
  SparsePiece piece{.deal = deal};
  if (!codec_row(spec.kind).draws && share.keeps) {
    piece.most_sums = chosen_elements(std::min(1.0, 2 * share.ratio), deal.owned(rank));
  }
  return piece;
}

void clip_locally(double clip, std::size_t ranks, std::span<float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double norm = std::sqrt(squares), limit = clip / std::sqrt(static_cast<double>(ranks));
  if (!std::isfinite(norm) || norm <= limit) return;
  const auto scale = static_cast<float>(limit / norm);
  for (float& value : values) value *= scale;
}

void correct_momentum(double momentum, bool nesterov, std::span<float> velocity,
                      std::span<float> values) {
  const auto m = static_cast<float>(momentum);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float gradient = values[i];
    velocity[i] = nesterov ? m * (velocity[i] + gradient) : m * velocity[i] + gradient;
    values[i] = nesterov ? velocity[i] + gradient : velocity[i];
  }
}

}  // namespace ronde
