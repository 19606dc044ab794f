#include <array>

#include "ops/compression/registry.h"

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

}  // namespace ronde
