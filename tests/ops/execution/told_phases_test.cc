// The phases that the algorithms report.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/ports/phases.h"
#include "ops/selection/selector.h"
#include "tests/ops/hierarchical/hierarchical_fixture.h"
#include "tests/support/phase_lines.h"

namespace ronde::test {
namespace {

using Lines = std::vector<std::string>;

constexpr int kRanks = 4;
constexpr std::size_t kCount = std::size_t{1} << 20;

/// The phases that rank 0 reports of an allreduce of 4 MiB by this algorithm.
Lines told_by(const Algorithm& algorithm) {
  Lines lines;
  LocalFixture().run(kRanks, [&](int rank, Backend& backend, const GroupSpec& spec,
                                 Exchange& exchange) {
    const auto kernels = plain_kernels();
    auto group = backend.open(spec, exchange);
    REQUIRE(group.ok());
    std::vector<float> values(kCount, 1.0F);
    Scratch scratch;
    const AbortToken abort;
    FlatWork work{
        .kernels = *kernels, .abort = abort, .reduction = {DType::kFloat32, ReduceOp::kSum, {}}};
    work.in = work.out = reinterpret_cast<std::byte*>(values.data());
    work.bytes = kCount * sizeof(float);
    PhaseLines observer(work.bytes);
    work.phases = &observer;
    CHECK(algorithm.run(*(*group)->transport(), work, scratch).ok());
    CHECK(values.back() == kRanks);
    CHECK(observer.all_ended());
    if (rank == 0) lines = observer.lines;
  });
  return lines;
}

TEST_CASE("phases: every algorithm of allreduce tells of what it does, in bounded number") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.kind != Collective::kAllreduce) continue;
    CAPTURE(algorithm.name);
    const Lines lines = told_by(algorithm);
    CHECK(!lines.empty());
    CHECK(lines.size() <= 2 * PhaseSteps::kMost);
  }
}

TEST_CASE("phases: a ring has steps to reduce and to gather, halving-doubling has halves") {
  const Lines ring = told_by(*find_algorithm(Collective::kAllreduce, "ring"));
  CHECK(has(ring, "reduce-scatter step 1"));
  CHECK(has(ring, "allgather step 3 of 3"));
  const Lines halves = told_by(*find_algorithm(Collective::kAllreduce, "halving_doubling"));
  CHECK(halves == Lines{"halving step 1 of 2", "halving step 2 of 2", "doubling step 1 of 2",
                        "doubling step 2 of 2"});
}

TEST_CASE("phases: what goes on between hosts is told beside what goes on inside them") {
  HierarchyTweaks tweaks;
  tweaks.slice_bytes = std::size_t{1} << 20;
  run_on_hosts(
      {0, 0, 1, 1}, tweaks,
      [&](int rank, Backend& backend, const GroupSpec& spec, Exchange& exchange) {
        auto group = backend.open(spec, exchange);
        REQUIRE(group.ok());
        std::vector<float> values(kCount, 1.0F);
        auto* const data = reinterpret_cast<std::byte*>(values.data());
        const Segment segment{data, data, kCount * sizeof(float)};
        PhaseLines wire(segment.bytes);
        PhaseLines inside(segment.bytes, &wire);
        Work work;
        work.kind = Collective::kAllreduce;
        work.reduction.dtype = DType::kFloat32;
        work.segments = {&segment, 1};
        work.phases = &inside;
        CHECK((*group)->run(work, kNoStream, AbortToken()).ok());
        CHECK(values.back() == kRanks);
        CHECK((inside.all_ended() && wire.all_ended()));
        if (rank != 0) return;
        CHECK(std::count(inside.lines.begin(), inside.lines.end(), "reduce inside hosts") == 5);
        CHECK(std::count(inside.lines.begin(), inside.lines.end(), "gather inside hosts") == 5);
        CHECK(std::count(wire.lines.begin(), wire.lines.end(), "between hosts") == 5);
      });
}

}  // namespace
}  // namespace ronde::test
