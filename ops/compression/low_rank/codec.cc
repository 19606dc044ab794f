#include "ops/compression/low_rank/codec.h"

#include <array>

#include "ops/compression/low_rank/factors.h"

namespace ronde {
namespace {

constexpr CodecParameter kRank{"rank", "rank", "Columns of each factor",
                               WholeNumbers{&CompressionSpec::rank, 1, kMaxRank}};
constexpr std::array kPowersgdParameters{parameters::kWarmup, kRank, parameters::kSeed,
                                         parameters::kErrorFeedback, parameters::kResidual};

}  // namespace

constinit const CodecRow kPowersgdCodec{
    .name = "powersgd",
    .title = "PowerSGD",
    .summary =
        "Matrices as products of two thin ones; tensors of one dimension and small ones "
        "travel in fp32",
    .defaults = {.kind = CodecKind::kPowersgd, .rank = 4},
    .parameters = kPowersgdParameters,
    .payload = Payload::kFactors,
    .sends_little = true,
    .training_warmup = 200,
    .rounds = 2,
    .wire_share = [](const CompressionSpec&, const WireLoad& load) { return load.low_rank; },
    .auto_place = AutoPlace{Accuracy::kAggressive, 4},
};

double low_rank_elements(const Shape& shape, std::size_t rank) {
  const auto count = static_cast<double>(element_count(shape));
  if (shape.size() < 2 || shape[0] == 0) return count;
  const auto rows = static_cast<std::size_t>(shape[0]);
  const LowRankShape matrix{rows, static_cast<std::size_t>(element_count(shape)) / rows, rank};
  return matrix.saves() ? static_cast<double>(rank * (matrix.rows + matrix.columns)) : count;
}

}  // namespace ronde
