#include <atomic>
#include <cmath>

#include "ops/compression/compressed_work.h"
#include "ops/hierarchical/levels.h"
#include "tests/conformance/rank.h"
#include "tests/ops/counting_transport.h"
#include "tests/ops/hierarchical/hierarchical_fixture.h"

namespace ronde::test {
namespace {

/// Passes everything on; counts the bytes that ranks send over it.
class CountedPlane final : public Communicator {
 public:
  CountedPlane(std::unique_ptr<Communicator> inner, std::atomic<std::size_t>& bytes)
      : Communicator(inner->traits()),
        inner_(std::move(inner)),
        transport_(*inner_->transport(), log_),
        bytes_(bytes) {}
  ~CountedPlane() override { bytes_ += transport_.traffic().bytes; }
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override {
    return inner_->run(work, stream, abort);
  }
  Transport* transport() noexcept override { return &transport_; }

 private:
  const std::unique_ptr<Communicator> inner_;
  WireLog log_;
  CountingTransport transport_;
  std::atomic<std::size_t>& bytes_;
};

/// Gives `count` floats to a collective and checks what comes out.
void run_once(Communicator& plane, const GroupSpec& group, Collective kind, std::size_t count) {
  const auto n = static_cast<std::size_t>(group.size());
  const bool has_parts = kind == Collective::kAllgather || kind == Collective::kReduceScatter;
  const std::size_t all = kind == Collective::kAllgather ? n * count : count;
  std::vector<float> in(count, static_cast<float>(group.rank + 1));
  std::vector<float> out(all);
  const std::vector<std::size_t> parts(n, all / n * sizeof(float));
  const Segment segment{reinterpret_cast<const std::byte*>(in.data()),
                        reinterpret_cast<std::byte*>(out.data()), all * sizeof(float)};
  Work work;
  work.kind = kind;
  work.root = group.size() - 1;
  work.segments = {&segment, 1};
  if (has_parts) work.chunk_bytes = parts;
  CHECK(plane.run(work, kNoStream, *group.abort).ok());
  const auto last = static_cast<float>(n);
  const float sum = last * (last + 1) / 2;
  const bool reduces = kind == Collective::kAllreduce || kind == Collective::kReduceScatter;
  const float first = kind == Collective::kAllgather ? 1 : last;
  CHECK(out.front() == (reduces ? sum : first));
  const std::size_t wanted = kind == Collective::kReduceScatter ? count / n : all;
  CHECK(out[wanted - 1] == (reduces ? sum : last));
}

/// Adds to `bytes` what ranks send between hosts.
HierarchyTweaks counting(std::atomic<std::size_t>& bytes) {
  HierarchyTweaks tweaks;
  tweaks.slice_bytes = 64 << 10;
  tweaks.wrap = [&](std::unique_ptr<Communicator> outer) {
    return std::make_unique<CountedPlane>(std::move(outer), bytes);
  };
  return tweaks;
}

/// Bytes that all ranks sent between hosts in one collective to which each gives `count` floats.
std::size_t bytes_between(const std::vector<int>& host_of_rank, std::size_t count,
                          Collective kind = Collective::kAllreduce) {
  std::atomic<std::size_t> bytes = 0;
  run_on_hosts(host_of_rank, counting(bytes),
               [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
                 auto plane = backend.open(group, exchange);
                 REQUIRE(plane.ok());
                 run_once(**plane, group, kind, count);
               });
  return bytes;
}

HostLayout layout_of(const std::vector<int>& host_of_rank, int rank) {
  const LocalJob job(static_cast<int>(host_of_rank.size()), host_of_rank);
  return host_layout(job.group(rank));
}

struct SmallSlices : HierarchicalFixture {
  SmallSlices() : HierarchicalFixture({.deterministic = false, .slice_bytes = 4096, .wrap = {}}) {}
};
struct Deterministic : HierarchicalFixture {
  Deterministic()
      : HierarchicalFixture({.deterministic = true, .slice_bytes = 16384, .wrap = {}}) {}
};

constexpr std::size_t kCompressedCount = 50'000;
constexpr std::size_t kColumns = 250;
constexpr int kSteps = 3;

float value_of(int rank, int step, std::size_t i) {
  return std::sin(static_cast<float>(i) * static_cast<float>(rank + 1) + static_cast<float>(step));
}

/// One rank's average allreduces, compressed between hosts: their sums, and the residual.
class CompressedSteps {
 public:
  CompressedSteps(const Scheme& scheme, int rank) : scheme_(scheme), rank_(rank) {}

  void run(Backend& backend, const GroupSpec& group, Exchange& exchange) {
    auto& hierarchical = static_cast<HierarchicalBackend&>(backend);
    const auto hierarchy = hierarchical.hierarchy(group, exchange).value();
    auto codec = std::make_unique<TransportCompressed>("lane", hierarchy->peers(), plain_kernels());
    TransportCompressed& between = *codec;
    HierarchicalCommunicator levels(hierarchy, std::move(codec));
    CHECK(levels.traits().lossy);
    CHECK_FALSE(levels.traits().supports.has(Collective::kBroadcast, DType::kFloat32));
    for (int step = 0; step < kSteps; ++step) run_step(levels, between, group, step);
  }

  [[nodiscard]] const std::vector<double>& sums() const { return sums_; }
  [[nodiscard]] std::vector<float> residual() const { return residual_->values().value(); }

 private:
  void run_step(Communicator& levels, TransportCompressed& between, const GroupSpec& group,
                int step) {
    std::vector<float> values(kCompressedCount);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank_, step, i);
    auto* data = reinterpret_cast<std::byte*>(values.data());
    const Segment segment{data, data, values.size() * sizeof(float)};
    std::vector<CompressedTensor> tensors(1);
    tensors[0].residual = residual_;
    tensors[0].basis = basis_;
    tensors[0].columns = kColumns;
    CompressedWork compression(scheme_, tensors);
    Work work;
    work.kind = Collective::kAllreduce;
    work.reduction.scaling.post = 0.25;
    work.segments = {&segment, 1};
    const Binding binding(between, compression);
    CHECK(levels.run(work, kNoStream, *group.abort).ok());
    compression.commit(work);
    for (std::size_t i = 0; i < values.size(); ++i) sums_[i] += values[i];
  }

  const Scheme& scheme_;
  const int rank_;
  const std::shared_ptr<Residual> residual_ = std::make_shared<Residual>(kCompressedCount);
  const std::shared_ptr<Residual> basis_ = std::make_shared<Residual>(kColumns * 2);
  std::vector<double> sums_ = std::vector<double>(kCompressedCount);
};

/// Sums and residuals together are all that the four ranks gave.
void check_nothing_is_lost(const std::vector<CompressedSteps>& ranks) {
  std::vector<double> kept = ranks[0].sums();
  std::vector<double> given(kept.size());
  for (int rank = 0; rank < 4; ++rank) {
    const auto left = ranks[static_cast<std::size_t>(rank)].residual();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      kept[i] += left[i];
      for (int step = 0; step < kSteps; ++step) given[i] += double{value_of(rank, step, i)} / 4;
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    REQUIRE(kept[i] == doctest::Approx(given[i]).epsilon(1e-4).scale(1));
  }
}

/// Sums of four ranks on two hosts: at most `most` bytes are sent between the hosts in a step.
void check_compressed(const char* compression_text, double most) {
  INFO(compression_text);
  const Scheme scheme(*parse_compression(compression_text));
  std::vector<CompressedSteps> ranks;
  ranks.reserve(4);
  for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(scheme, rank);
  std::atomic<std::size_t> bytes = 0;
  run_on_hosts({0, 0, 1, 1}, counting(bytes),
               [&](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
                 ranks[static_cast<std::size_t>(rank)].run(backend, group, exchange);
               });
  CHECK(ranks[1].sums() == ranks[0].sums());
  CHECK(ranks[3].sums() == ranks[0].sums());
  check_nothing_is_lost(ranks);
  CHECK(static_cast<double>(bytes) <= most * kSteps);
}

}  // namespace

TEST_CASE("hierarchical: compression is between hosts alone, and what it loses comes later") {
  check_compressed("int4", 1.03 * 2 * (50'000 / 2.0 + 196 * 4));
  check_compressed("topk:ratio=0.05", 3 * 2500 * 6.5);
  check_compressed("powersgd:rank=2", 60'000);
}

TEST_CASE("hierarchical: every host sends 2(m-1)/m of the bytes, however its ranks are spread") {
  constexpr std::size_t kCount = 240'000;
  CHECK(bytes_between({0, 0, 1, 1}, kCount) == 2 * kCount * 4);
  CHECK(bytes_between({0, 0, 0, 1}, kCount) == 2 * kCount * 4);
  CHECK(bytes_between({0, 0, 1, 1, 2, 2}, kCount) == 4 * kCount * 4);
  CHECK(bytes_between({0, 1, 0, 2, 1, 0, 2}, kCount) == 4 * kCount * 4);
}

TEST_CASE("hierarchical: a broadcast enters every host but the root's once, in slices or not") {
  for (const std::size_t count : {1000U, 240'000U}) {
    const auto bytes = [&](const std::vector<int>& host_of_rank) {
      return bytes_between(host_of_rank, count, Collective::kBroadcast);
    };
    CHECK(bytes({0, 0, 1, 1}) == count * 4);
    CHECK(bytes({0, 0, 0, 1}) == count * 4);
    CHECK(bytes({0, 1, 0, 2, 1, 0, 2}) == 2 * count * 4);
  }
}

TEST_CASE("hierarchical: in an allgather what other hosts have enters each host once") {
  for (const std::size_t count : {10U, 24'000U}) {
    const auto bytes = [&](const std::vector<int>& host_of_rank) {
      return bytes_between(host_of_rank, count, Collective::kAllgather);
    };
    CHECK(bytes({0, 0, 1, 1}) == 4 * count * 4);
    CHECK(bytes({0, 0, 0, 1}) == 4 * count * 4);
    CHECK(bytes({0, 1, 0, 2, 1, 0, 2}) == std::size_t{2} * 7 * count * 4);
  }
}

TEST_CASE("hierarchical: in a reduce_scatter a host's sums for each other host leave it once") {
  for (const std::size_t count : {84U, 24'024U}) {
    const auto bytes = [&](const std::vector<int>& host_of_rank) {
      return bytes_between(host_of_rank, count, Collective::kReduceScatter);
    };
    CHECK(bytes({0, 0, 1, 1}) == count * 4);
    CHECK(bytes({0, 0, 0, 1}) == count * 4);
    CHECK(bytes({0, 1, 0, 2, 1, 0, 2}) == 2 * count * 4);
  }
}

TEST_CASE("hierarchical: a small tensor travels in one lane") {
  CHECK(bytes_between({0, 0, 1, 1}, 8) == 2 * 8 * 4);
}

TEST_CASE("host_layout: ranks by host, and where this one is") {
  const HostLayout layout = layout_of({0, 1, 0, 1, 0}, 3);
  CHECK(layout.hosts == std::vector<std::vector<int>>{{0, 2, 4}, {1, 3}});
  CHECK(layout.host == 1);
  CHECK(layout.local == 1);
  CHECK(layout.fewest_ranks() == 2);
  CHECK(layout.has_levels());
  CHECK_FALSE(layout_of({0, 1, 2}, 1).has_levels());
  CHECK_FALSE(layout_of({0, 0, 0}, 1).has_levels());
}

RONDE_CONFORMANCE("hierarchical", HierarchicalFixture)
RONDE_HOST_CONFORMANCE("hierarchical", HierarchicalFixture)

RONDE_CONFORMANCE_CASE_("hierarchical in slices: allreduce of every type, op and count",
                        SmallSlices, conformance_allreduce)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: large tensors", SmallSlices,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: factors", SmallSlices, conformance_scaling)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: 16-bit averages are rounded once", SmallSlices,
                        conformance_averages)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: fused", SmallSlices, conformance_fused)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: a joined rank counts as zeros", SmallSlices,
                        conformance_joined)
RONDE_CONFORMANCE_CASE_("hierarchical in slices: abort", SmallSlices, conformance_abort)
RONDE_CONFORMANCE_CASE_("hierarchical, deterministic: large tensors", Deterministic,
                        conformance_large_allreduce)
RONDE_CONFORMANCE_CASE_("hierarchical, deterministic: 16-bit averages are rounded once",
                        Deterministic, conformance_averages)

}  // namespace ronde::test
