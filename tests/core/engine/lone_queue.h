// The queue of a process set with this rank alone: all it submits is agreed at once.
#pragma once

#include <memory>
#include <utility>

#include "core/engine/set_queue.h"

namespace ronde::test {

/// An executor that does nothing.
class IdleExecutor final : public Executor {
 public:
  Status execute(const Bundle&, const AbortToken&) override { return {}; }
};

/// What queues of one rank share.
struct QueueParts {
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  FlightRing flights;
  Meter meter;
  LaunchOrder launches;

  SetQueueOptions options(SetId id, std::unique_ptr<Executor> executor) {
    SetQueueOptions options;
    options.id = id;
    options.negotiation.members = {0};
    options.negotiation.hosts = {0};
    options.inline_bytes = 1 << 16;
    options.executor = std::move(executor);
    options.abort = abort;
    options.flights = &flights;
    options.meter = &meter;
    options.launches = &launches;
    options.on_finished = [] {};
    options.on_left_behind = [](const Status&) {};
    options.on_broken = [](const Status&) {};
    return options;
  }
  SetQueuePtr queue(SetId id,
                    std::unique_ptr<Executor> executor = std::make_unique<IdleExecutor>()) {
    return std::make_shared<SetQueue>(options(id, std::move(executor)));
  }
};

}  // namespace ronde::test
