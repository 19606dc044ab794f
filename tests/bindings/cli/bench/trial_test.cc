// The data of a measurement: right results pass, everything else does not.
#include "bindings/cli/bench/trial.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "bindings/cli/bench/options.h"

namespace ronde::bench {
namespace {

using Ranks = std::vector<std::unique_ptr<Trial>>;

Ranks ranks_of(Collective kind, DType dtype, std::size_t bytes, int size,
               ReduceOp op = ReduceOp::kSum) {
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<Trial>(TrialSpec{
        .kind = kind, .dtype = dtype, .op = op, .bytes = bytes, .rank = rank, .size = size}));
  }
  return ranks;
}

bool all_correct(const Ranks& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const auto& trial) { return trial->correct(); });
}

/// Moves part `from_part` of one rank's input to part `to_part` of another's output.
void move_part(Trial& from, std::size_t from_part, Trial& to, std::size_t to_part,
               std::size_t bytes) {
  std::memcpy(to.out().data() + to_part * bytes, from.in().data() + from_part * bytes, bytes);
}

TEST_CASE("a trial whose output was never written is wrong") {
  for (const Collective kind :
       {Collective::kAllreduce, Collective::kAllgather, Collective::kBroadcast,
        Collective::kReduceScatter, Collective::kAlltoall, Collective::kScatter}) {
    const Ranks ranks = ranks_of(kind, DType::kFloat32, 4096, 3);
    for (const auto& trial : ranks) {
      const bool only_gives = kind == Collective::kBroadcast && trial->spec().rank == 0;
      CHECK(trial->correct() == only_gives);
    }
  }
}

TEST_CASE("sums of int32 are recognised, and one wrong element is not") {
  Ranks ranks = ranks_of(Collective::kAllreduce, DType::kInt32, 5000, 3);
  for (const auto& to : ranks) {
    for (std::size_t i = 0; i < to->out().size() / 4; ++i) {
      std::int32_t sum = 0;
      for (const auto& from : ranks) {
        std::int32_t value = 0;
        std::memcpy(&value, from->in().data() + 4 * i, 4);
        sum += value;
      }
      std::memcpy(to->out().data() + 4 * i, &sum, 4);
    }
  }
  CHECK(all_correct(ranks));
  ranks[1]->out().back() ^= std::byte{1};
  CHECK_FALSE(ranks[1]->correct());
}

TEST_CASE("averages are recognised, and sums in their place are not") {
  const Ranks ranks = ranks_of(Collective::kAllreduce, DType::kFloat64, 800, 3, ReduceOp::kAverage);
  const auto input_at = [&](std::size_t rank, std::size_t i) {
    double value = 0;
    std::memcpy(&value, ranks[rank]->in().data() + 8 * i, 8);
    return value;
  };
  for (const double divisor : {3.0, 1.0}) {
    for (std::size_t i = 0; i < 100; ++i) {
      const double mean = (input_at(0, i) + input_at(1, i) + input_at(2, i)) / divisor;
      for (const auto& to : ranks) std::memcpy(to->out().data() + 8 * i, &mean, 8);
    }
    CHECK(all_correct(ranks) == (divisor == 3.0));
  }
}

TEST_CASE("inputs of Adasum have no place in common, so that their sum is the result") {
  const Ranks ranks = ranks_of(Collective::kAllreduce, DType::kFloat32, 400, 3, ReduceOp::kAdasum);
  for (std::size_t i = 0; i < 100; ++i) {
    float sum = 0;
    int given = 0;
    for (const auto& from : ranks) {
      float value = 0;
      std::memcpy(&value, from->in().data() + 4 * i, 4);
      sum += value;
      given += value != 0 ? 1 : 0;
    }
    CHECK(given == 1);
    for (const auto& to : ranks) std::memcpy(to->out().data() + 4 * i, &sum, 4);
  }
  CHECK(all_correct(ranks));
}

TEST_CASE("gathered and exchanged parts are recognised in their order only") {
  constexpr std::size_t kPart = 100;
  Ranks gather = ranks_of(Collective::kAllgather, DType::kUint8, 3 * kPart, 3);
  Ranks exchange = ranks_of(Collective::kAlltoall, DType::kUint8, 3 * kPart, 3);
  for (std::size_t to = 0; to < 3; ++to) {
    for (std::size_t from = 0; from < 3; ++from) {
      move_part(*gather[from], 0, *gather[to], from, kPart);
      move_part(*exchange[from], to, *exchange[to], from, kPart);
    }
  }
  CHECK(all_correct(gather));
  CHECK(all_correct(exchange));
  move_part(*gather[0], 0, *gather[2], 1, kPart);
  CHECK_FALSE(gather[2]->correct());
}

TEST_CASE("only the root of a reduce is looked at") {
  const Ranks ranks = ranks_of(Collective::kReduce, DType::kFloat32, 400, 2);
  CHECK_FALSE(ranks[0]->correct());
  CHECK(ranks[1]->correct());
}

TEST_CASE("bytes are rounded to equal parts, and never to nothing") {
  CHECK(ranks_of(Collective::kAllgather, DType::kFloat32, 1000, 3)[0]->bytes() == 996);
  CHECK(ranks_of(Collective::kAllgather, DType::kFloat32, 4, 3)[0]->bytes() == 12);
  CHECK(ranks_of(Collective::kAllreduce, DType::kFloat64, 4, 3)[0]->bytes() == 8);
  CHECK(ranks_of(Collective::kBarrier, DType::kFloat32, 4, 3)[0]->bytes() == 0);
}

TEST_CASE("bus bandwidth counts what each link must carry") {
  CHECK(ranks_of(Collective::kAllreduce, DType::kFloat32, 64, 4)[0]->bus_factor() == 1.5);
  CHECK(ranks_of(Collective::kAllgather, DType::kFloat32, 64, 4)[0]->bus_factor() == 0.75);
  CHECK(ranks_of(Collective::kBroadcast, DType::kFloat32, 64, 4)[0]->bus_factor() == 1.0);
}

TEST_CASE("patterns of all types differ between ranks and between places") {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    std::vector<std::byte> data(1000 * size_of(dtype));
    const TrialSpec spec{.dtype = dtype};
    Pattern::of_rank(spec, 1).fill(data, 5);
    CHECK(Pattern::of_rank(spec, 1).matches(data, 5));
    CHECK_FALSE(Pattern::of_rank(spec, 2).matches(data, 5));
    CHECK_FALSE(Pattern::of_rank(spec, 1).matches(data, 6));
  }
}

TEST_CASE("ResNet-50 has 161 parameters with 25,557,032 elements") {
  const std::vector<Shape> shapes = model_shapes("resnet50");
  CHECK(shapes.size() == 161);
  std::int64_t elements = 0;
  for (const Shape& shape : shapes) elements += element_count(shape);
  CHECK(elements == 25'557'032);
  CHECK(shapes.front() == Shape{64, 3, 7, 7});
  CHECK(shapes[12] == Shape{256, 64, 1, 1});   // layer1.0.downsample.0.weight
  CHECK(shapes[33] == Shape{128, 256, 1, 1});  // layer2.0.conv1.weight
  CHECK(shapes[159] == Shape{1000, 2048});
  CHECK(model_shapes("alexnet").empty());
}

}  // namespace
}  // namespace ronde::bench
