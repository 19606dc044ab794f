// Ranks as threads of one process, each with an engine over the local channel.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "tests/core/engine/sum_of.h"
#include "tests/core/engine/thread_executor.h"
#include "tests/core/protocol/payloads.h"
#include "tests/support/local/factory.h"
#include "tests/support/local/hub.h"

namespace ronde::test {

/// State that the ranks of one test share.
struct EngineJob {
  explicit EngineJob(int ranks, std::vector<int> hosts = {})
      : size(ranks),
        hub(create_local_hub(ranks, hosts)),
        everyone(static_cast<std::size_t>(ranks)) {
    std::iota(everyone.begin(), everyone.end(), 0);
    global = std::make_shared<MeetingPlace>(ranks);
  }
  int size;
  std::shared_ptr<LocalHub> hub;
  std::vector<int> everyone;
  std::shared_ptr<MeetingPlace> global;
  std::size_t payload_bytes = 0;  ///< As EngineOptions have it.
};

/// A host for each rank.
inline std::vector<int> one_host_each(int ranks) {
  std::vector<int> hosts(static_cast<std::size_t>(ranks));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

/// One rank: channel, engine and the global set.
struct EngineRank {
  EngineRank(const EngineJob& job, int rank, std::size_t inline_bytes = 1 << 16,
             Duration far_deadline = std::chrono::seconds(10))
      : EngineRank(job, create_local_channel(job.hub, rank), inline_bytes, far_deadline) {}
  /// With a channel of the test's own.
  EngineRank(const EngineJob& job, std::unique_ptr<ControlChannel> own,
             std::size_t inline_bytes = 1 << 16, Duration far_deadline = std::chrono::seconds(10))
      : channel(std::move(own)) {
    EngineOptions options;
    options.inline_bytes = inline_bytes;
    options.far_deadline = far_deadline;
    options.channel = channel.get();
    options.abort = abort;
    options.events = &events;
    options.fusion_threshold_bytes = 1 << 20;
    options.cache_capacity = 64;
    options.payload_bytes = job.payload_bytes;
    options.payloads = carrying(0).payloads;
    options.stall.warning = std::chrono::seconds(60);
    engine = std::make_unique<Engine>(options);
    engine->add_set(kGlobalSet, job.everyone, std::make_unique<ThreadExecutor>(job.global));
  }
  ~EngineRank() {
    engine->leave(now() + std::chrono::seconds(20));
    engine.reset();
    channel->close();
  }
  EngineRank(const EngineRank&) = delete;
  EngineRank& operator=(const EngineRank&) = delete;

  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  EventSwitch events;  ///< Off.
  std::unique_ptr<ControlChannel> channel;
  std::unique_ptr<Engine> engine;
};

/// Submits and waits; the status of either.
inline Status run(Engine& engine, SetId set, Submission submission) {
  submission.caller_waits = true;
  RONDE_ASSIGN_OR_RETURN(const auto operation, engine.submit(set, std::move(submission)));
  return engine.wait(operation, {});
}

}  // namespace ronde::test
