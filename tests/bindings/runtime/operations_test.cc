// Submitting and waiting, with ranks that are threads.
#include "bindings/runtime/operations.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/core/engine/engine_job.h"
#include "tests/support/run_ranks.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using test::EngineJob;
using test::EngineRank;
using test::run_ranks;
using test::sum_of;

DeviceLibraries no_devices() {
  return {.accelerator = []() -> Result<std::shared_ptr<Accelerator>> {
    return Status(Code::kUnavailable, "built without CUDA");
  }};
}

/// One rank with what its operations need.
struct Rank {
  Rank(const EngineJob& job, int number)
      : topology{number, std::vector<PeerInfo>(static_cast<std::size_t>(job.size))},
        engine(job, number),
        sets(job.size),
        operations(state, preparer, *engine.engine, devices, timeline, callers, nullptr, nullptr) {}
  Config config;
  Topology topology;
  EngineRank engine;
  RuntimeState state;
  ProcessSetTable sets;
  ResidualStore residuals;
  Devices devices{no_devices()};
  SubmissionPreparer preparer{{}, sets, residuals, devices, 0};
  Timeline timeline{config, topology, {}};
  diagnosis::WaitingCallers callers;
  Operations operations;
};

}  // namespace

TEST_CASE("Operations: what is submitted is summed, by run or by submit and wait") {
  const EngineJob job(2);
  run_ranks(2, [&](int number) {
    Rank rank(job, number);
    std::vector<float> values = {1.0F};
    const auto operation = rank.operations.run(kGlobalSet, sum_of("a", values));
    REQUIRE(operation.ok());
    CHECK((*operation)->status().ok());
    const auto later = rank.operations.submit(kGlobalSet, sum_of("b", values));
    REQUIRE(later.ok());
    CHECK(rank.operations.wait(*later).ok());
    CHECK(rank.operations.order_after(*later, nullptr).ok());
    CHECK(values[0] == 4.0F);
    CHECK(rank.callers.tids().empty());
  });
}

TEST_CASE("Operations: messages go to ranks of the job only") {
  const EngineJob job(2);
  run_ranks(2, [&](int number) {
    Rank rank(job, number);
    std::array<std::byte, 4> bytes{std::byte{7}};
    Message message;
    const auto wrong = rank.operations.send(2, 0, bytes);
    CHECK(wrong.status().message() == "cannot send to rank 2; allowed: 0 to 1");
    CHECK(rank.operations.recv(-2, 0, bytes, nullptr).status().code() == Code::kInvalidArgument);
    const auto operation = number == 0 ? rank.operations.send(1, 3, bytes)
                                       : rank.operations.recv(kAnySource, 3, bytes, &message);
    REQUIRE(operation.ok());
    CHECK(rank.operations.wait(*operation).ok());
    if (number == 1) CHECK(message.source == 0);
  });
}

TEST_CASE("Operations: a wait shows in the timeline") {
  const EngineJob job(2);
  const ScratchFolder scratch;
  run_ranks(2, [&](int number) {
    Rank rank(job, number);
    REQUIRE(rank.timeline.start(scratch.file("t.json")).ok());
    std::vector<float> values = {1.0F};
    CHECK(rank.operations.run(kGlobalSet, sum_of("a", values)).ok());
    CHECK(rank.timeline.stop().ok());
  });
  CHECK(content_of(scratch.file("t.rank0.json")).find("WAIT") != std::string::npos);
}

TEST_CASE("Operations: nothing starts after the end of the runtime, and what is done stays done") {
  const EngineJob job(1);
  Rank rank(job, 0);
  std::vector<float> values = {1.0F};
  const auto done = rank.operations.run(kGlobalSet, sum_of("a", values));
  REQUIRE(done.ok());
  REQUIRE(rank.state.end());
  const auto refused = [](const Status& status) { return status.code() == Code::kNotInitialized; };
  CHECK(rank.operations.wait(*done).ok());
  CHECK(refused(rank.operations.submit(kGlobalSet, sum_of("b", values)).status()));
  CHECK(refused(rank.operations.join(kGlobalSet).status()));
  CHECK(refused(rank.operations.send(0, 0, {}).status()));
  CHECK(refused(rank.operations.recv(0, 0, {}, nullptr).status()));
}

}  // namespace ronde
