// Ranks keep residuals of compression and tuning from one job to the next.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/runtime.h"
#include "core/base/log.h"
#include "ops/compression/residuals.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using RuntimePtr = std::unique_ptr<Runtime>;

constexpr std::size_t kCount = 5000;

/// A rank of a job, after the job of `last` if it is given; null where it cannot join.
RuntimePtr join(const Config& config, const Runtime* last = nullptr) {
  auto runtime = Runtime::create(config, {.cancel = {}, .last = last});
  if (!runtime.ok()) std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
  return runtime.ok() ? std::move(*runtime) : nullptr;
}

/// The sum of waves that differ between ranks and steps; empty where it fails.
std::vector<float> compressed_sum(Runtime& runtime, const std::string& compression, int step,
                                  SetId set = kGlobalSet) {
  std::vector<float> values(kCount);
  const auto phase = static_cast<float>(runtime.rank() + 10 * step);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = std::sin(static_cast<float>(i) + phase);
  Submission submission = sum_of("w", values);
  submission.request.compression = compression;
  const auto done = runtime.operations().run(set, std::move(submission));
  const Status status = done.ok() ? (*done)->status() : done.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? values : std::vector<float>();
}

/// True if all ranks have these values.
bool same_everywhere(Runtime& runtime, const std::vector<float>& values) {
  std::vector<float> mean = values;
  Submission submission = sum_of("mean", mean);
  submission.request.op = ReduceOp::kMax;
  const auto done = runtime.operations().run(kGlobalSet, std::move(submission));
  return done.ok() && (*done)->status().ok() && mean == values;
}

SavedResidual residual_of(Runtime& runtime) {
  auto saved = runtime.residuals().save().value();
  return saved.size() == 1 ? saved[0] : SavedResidual{};
}

bool equal(const SavedResidual& a, const SavedResidual& b) {
  return a.name == b.name && a.steps == b.steps && a.values == b.values && !a.values.empty();
}

}  // namespace

TEST_CASE("Carry-over: a tensor's residual is the same before and after a change of epochs") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    const RuntimePtr first = join(net::rank_config(job, rank, 2));
    RONDE_CHILD_REQUIRE(first);
    for (int step = 0; step < 3; ++step) {
      RONDE_CHILD_REQUIRE(!compressed_sum(*first, "int4", step).empty());
    }
    const SavedResidual before = residual_of(*first);
    first->shutdown();
    const RuntimePtr second = join(net::rank_config(job + "-2", rank, 2), first.get());
    RONDE_CHILD_REQUIRE(second);
    RONDE_CHILD_REQUIRE(equal(residual_of(*second), before));
    RONDE_CHILD_REQUIRE(before.steps == 3);
    RONDE_CHILD_REQUIRE(!compressed_sum(*second, "int4", 3).empty());
    RONDE_CHILD_REQUIRE(residual_of(*second).steps == 4);
    RONDE_CHILD_REQUIRE(residual_of(*second).values != before.values);
    return 0;
  });
  CHECK(codes == net::all_good(2));
}

TEST_CASE("Carry-over: survivors of a smaller job keep their residuals, and say what is lost") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(3, [&](int rank) {
    const RuntimePtr first = join(net::rank_config(job, rank, 3));
    RONDE_CHILD_REQUIRE(first);
    RONDE_CHILD_REQUIRE(!compressed_sum(*first, "int8", 0).empty());
    const SavedResidual before = residual_of(*first);
    first->shutdown();
    if (rank == 1) return 0;
    const int place = rank / 2;
    Config config = net::rank_config(job + "-2", place, 2);
    const ScratchFolder folder;
    RONDE_CHILD_REQUIRE(std::freopen(folder.file("log").c_str(), "w", stderr) != nullptr);
    const RuntimePtr second = join(config, first.get());
    RONDE_CHILD_REQUIRE(second);
    RONDE_CHILD_REQUIRE(equal(residual_of(*second), before));
    const std::string log = content_of(folder.file("log"));
    const bool told =
        log.find("on 1 of 3 ranks are lost with them, of up to 1 tensors") != std::string::npos;
    return told == (place == 0) ? 0 : 2;
  });
  CHECK(codes == net::all_good(3));
}

TEST_CASE("Carry-over: nothing is said if no rank is lost, though one has no residual") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    const ScratchFolder folder;
    RONDE_CHILD_REQUIRE(std::freopen(folder.file("log").c_str(), "w", stderr) != nullptr);
    const RuntimePtr first = join(net::rank_config(job, rank, 2));
    RONDE_CHILD_REQUIRE(first);
    const SetId alone = first->process_sets().add({0}).value();
    if (rank == 0) RONDE_CHILD_REQUIRE(!compressed_sum(*first, "int8", 0, alone).empty());
    first->shutdown();
    RONDE_CHILD_REQUIRE(join(net::rank_config(job + "-2", rank, 2), first.get()));
    return content_of(folder.file("log")).find("lost") == std::string::npos ? 0 : 2;
  });
  CHECK(codes == net::all_good(2));
}

TEST_CASE("Carry-over: nothing is said if a rank is lost that had nothing") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    const ScratchFolder folder;
    RONDE_CHILD_REQUIRE(std::freopen(folder.file("log").c_str(), "w", stderr) != nullptr);
    const RuntimePtr first = join(net::rank_config(job, rank, 2));
    RONDE_CHILD_REQUIRE(first);
    first->shutdown();
    if (rank == 1) return 0;
    RONDE_CHILD_REQUIRE(join(net::rank_config(job + "-2", 0, 1), first.get()));
    return content_of(folder.file("log")).find("lost") == std::string::npos ? 0 : 2;
  });
  CHECK(codes == net::all_good(2));
}

TEST_CASE("Carry-over: codecs that draw random numbers go on with ranks that have joined") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(3, [&](int rank) {
    RuntimePtr first;
    if (rank < 2) {
      first = join(net::rank_config(job, rank, 2));
      RONDE_CHILD_REQUIRE(first);
      for (int step = 0; step < 4; ++step) {
        RONDE_CHILD_REQUIRE(!compressed_sum(*first, "randomk:ratio=0.25", step).empty());
      }
      first->shutdown();
    }
    const RuntimePtr second = join(net::rank_config(job + "-2", rank, 3), first.get());
    RONDE_CHILD_REQUIRE(second);
    const auto sum = compressed_sum(*second, "randomk:ratio=0.25", 5);
    RONDE_CHILD_REQUIRE(!sum.empty());
    RONDE_CHILD_REQUIRE(same_everywhere(*second, sum));
    RONDE_CHILD_REQUIRE(residual_of(*second).steps == 5);
    return 0;
  });
  CHECK(codes == net::all_good(3));
}

TEST_CASE("Carry-over: residuals of a process set follow it to its new number") {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(3, [&](int rank) {
    const RuntimePtr first = join(net::rank_config(job, rank, 3));
    RONDE_CHILD_REQUIRE(first);
    const SetId pair = first->process_sets().add({0, 1}).value();
    const SetId other = first->process_sets().add({1, 2}).value();
    SavedResidual before;
    if (rank < 2) {
      RONDE_CHILD_REQUIRE(!compressed_sum(*first, "int8", 0, pair).empty());
      before = residual_of(*first);
    } else {
      RONDE_CHILD_REQUIRE(other != pair);
    }
    first->shutdown();
    const RuntimePtr second = join(net::rank_config(job + "-2", rank, 3), first.get());
    RONDE_CHILD_REQUIRE(second);
    RONDE_CHILD_REQUIRE(second->residuals().save()->empty());
    (void)second->process_sets().add({0, 2});
    (void)second->process_sets().add({1, 2});
    const SetId again = second->process_sets().add({0, 1}).value();
    RONDE_CHILD_REQUIRE(again != pair);
    second->residuals().rename_sets({{pair, again}});
    if (rank == 2) return second->residuals().bytes() == 0 ? 0 : 2;
    RONDE_CHILD_REQUIRE(equal(residual_of(*second), before));
    RONDE_CHILD_REQUIRE(residual_of(*second).set == again);
    return second->residuals().bytes() == kCount * sizeof(float) ? 0 : 3;
  });
  CHECK(codes == net::all_good(3));
}

TEST_CASE("Carry-over: a job keeps its tuning after the file has gone with its host") {
  const std::string job = net::unique_job_id();
  const ScratchFolder folder;
  const std::string file = folder.write(
      "tuning.json",
      R"({"rows": [{"collective": "allreduce", "max_bytes": 4096, "algorithm": "tree"}]})");
  const auto codes = net::run_ranks(2, [&](int rank) {
    Config config = net::rank_config(job, rank, 2);
    if (rank == 0) config.tuning_file = file;
    const RuntimePtr first = join(config);
    RONDE_CHILD_REQUIRE(first);
    first->shutdown();
    config = net::rank_config(job + "-2", 1 - rank, 2);  // the other is rank 0, without the file
    config.tuning_file = folder.file("gone");
    RONDE_CHILD_REQUIRE(join(config, first.get()));
    return 0;
  });
  CHECK(codes == net::all_good(2));
}

}  // namespace ronde
