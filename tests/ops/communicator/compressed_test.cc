#include "ops/communicator/compressed.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 1000;

/// A rank's input: multiples of 1/4, which 8 bits do not hold exactly.
std::vector<float> values_of(int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank)) % 101) * 0.25F;
  }
  return values;
}

Segment segment_of(std::vector<float>& values, std::size_t begin, std::size_t count) {
  auto* const at = reinterpret_cast<std::byte*>(values.data() + begin);
  return {at, at, count * sizeof(float)};
}

}  // namespace

TEST_CASE("compressed: sums and what is left over add up to what went in, whole or in runs") {
  LocalFixture().run(2, [](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    const auto wires = backend.open(group, exchange).value();
    TransportCompressed compressed("local", *wires->transport(), plain_kernels());
    CHECK(compressed.traits().lossy);
    CHECK(compressed.traits().supports.has(Collective::kAllreduce, DType::kFloat32));
    CHECK_FALSE(compressed.traits().supports.has(Collective::kAllreduce, DType::kInt32));
    CHECK_FALSE(compressed.traits().supports.has(Collective::kBroadcast, DType::kFloat32));
    const Scheme scheme(*parse_compression("int8"));
    for (const std::size_t runs : {1U, 4U}) {
      const auto residual = std::make_shared<Residual>(kCount);
      std::vector<CompressedTensor> tensors(1);
      tensors[0].residual = residual;
      CompressedWork compression(scheme, tensors);
      const Binding binding(compressed, compression);
      std::vector<float> values = values_of(rank);
      for (std::size_t run = 0; run < runs; ++run) {
        const std::size_t begin = run * (kCount / runs);
        const Segment segment = segment_of(values, begin, kCount / runs);
        const SegmentOrigin origin{0, begin};
        Work work;
        work.kind = Collective::kAllreduce;
        work.segments = {&segment, 1};
        work.bytes = segment.bytes;
        work.origins = {&origin, 1};
        REQUIRE(compressed.run(work, kNoStream, *group.abort).ok());
      }
      const Segment whole = segment_of(values, 0, kCount);
      Work work;
      work.segments = {&whole, 1};
      compression.commit(work);
      CHECK(compression.facts().wire_bytes > 0);
      const std::vector<float> left = residual->values().value();
      const auto all = exchange.allgather(
          {reinterpret_cast<const char*>(left.data()), left.size() * sizeof(float)});
      REQUIRE(all.ok());
      const auto* other =
          reinterpret_cast<const float*>((*all)[static_cast<std::size_t>(1 - rank)].data());
      const std::vector<float> zero = values_of(0), one = values_of(1);
      for (std::size_t i = 0; i < kCount; ++i) {
        REQUIRE(values[i] + left[i] + other[i] ==
                doctest::Approx(zero[i] + one[i]).epsilon(1e-5).scale(1));
      }
    }
  });
}

TEST_CASE("compressed: an abort ends the wait for a rank that never comes") {
  const LocalJob job(2);
  const auto hub = create_local_hub(2);
  run_ranks(2, [&](int rank) {
    const auto backend = create_local_backend(hub, rank);
    const auto exchange = job.exchange(rank);
    const GroupSpec group = job.group(rank);
    const auto wires = backend->open(group, *exchange).value();
    if (rank == 1) return job.abort().abort(Status(Code::kRankFailure, "rank 1 died"));
    TransportCompressed compressed("local", *wires->transport(), plain_kernels());
    const Scheme scheme(*parse_compression("int8"));
    CompressedWork compression(scheme, std::vector<CompressedTensor>(1));
    const Binding binding(compressed, compression);
    std::vector<float> values = values_of(rank);
    const Segment segment = segment_of(values, 0, kCount);
    Work work;
    work.kind = Collective::kAllreduce;
    work.segments = {&segment, 1};
    CHECK(compressed.run(work, kNoStream, job.abort()).code() == Code::kRankFailure);
  });
}

}  // namespace ronde::test
