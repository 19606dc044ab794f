#include "ops/compression/cost_model.h"

#include <algorithm>

#include "ops/compression/low_rank.h"

namespace ronde {
namespace {

/// Elements that a tensor has once it is a product of two thin matrices; all of them where that
/// does not pay.
double low_rank_elements(const Shape& shape, std::size_t rank) {
  const auto count = static_cast<double>(element_count(shape));
  if (shape.size() < 2 || shape[0] == 0) return count;
  const auto rows = static_cast<std::size_t>(shape[0]);
  const LowRankShape matrix{rows, static_cast<std::size_t>(element_count(shape)) / rows, rank};
  return matrix.saves() ? static_cast<double>(rank * (matrix.rows + matrix.columns)) : count;
}

struct Candidate {
  CodecKind kind;
  Accuracy needs;  // of a class at least as lossy
};

// The least lossy first. randomk learns too slowly to be chosen unasked.
constexpr std::array kCandidates{Candidate{CodecKind::kFp16, Accuracy::kSafe},
                                 Candidate{CodecKind::kBf16, Accuracy::kSafe},
                                 Candidate{CodecKind::kInt8, Accuracy::kAggressive},
                                 Candidate{CodecKind::kInt4, Accuracy::kAggressive},
                                 Candidate{CodecKind::kPowersgd, Accuracy::kAggressive},
                                 Candidate{CodecKind::kTopk, Accuracy::kAggressive},
                                 Candidate{CodecKind::kOnebit, Accuracy::kAggressive}};

/// Messages that follow on one another, by those of a dense allreduce; codecs have work of their
/// own.
double rounds(CodecKind kind) noexcept {
  if (is_sparse(kind) || kind == CodecKind::kPowersgd) return 2;
  return kind == kDense ? 1 : 1.1;
}

}  // namespace

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
  for (const Candidate& one : kCandidates) {
    const bool rounds_nothing = width <= 2 && one.needs == Accuracy::kSafe;
    if (one.needs <= accuracy && !rounds_nothing) kinds.push_back(one.kind);
  }
  return kinds;
}

double wire_share(CodecKind kind, const TensorLoad& load) noexcept {
  const CompressionSpec spec = default_spec(kind);
  const auto block = static_cast<double>(spec.block);
  switch (kind) {
    case CodecKind::kFp16:
    case CodecKind::kBf16:
      return 0.5;
    case CodecKind::kInt8:
      return 0.25 + 1 / block;
    case CodecKind::kInt4:
      return 0.125 + 1 / block;
    case CodecKind::kOnebit:
      return 1.0 / 32 + 2 / block;
    case CodecKind::kTopk:
      return 2.5 * spec.ratio;
    case CodecKind::kRandomk:
      return spec.ratio;
    case CodecKind::kPowersgd:
      return load.elements > 0 ? load.low_rank_elements / load.elements : 0;
    default:
      return static_cast<double>(load.width) / sizeof(float);
  }
}

double predict(CodecKind kind, const TensorLoad& load, const LinkCost& link,
               const CodecCosts& codecs) noexcept {
  const double bytes = load.elements * sizeof(float) * wire_share(kind, load);
  const double computing = load.elements * codecs[static_cast<std::size_t>(kind)];
  return rounds(kind) * link.latency_s + bytes * link.byte_s + computing;
}

}  // namespace ronde
