// One step of the engine: tasks in, frames in, frames out, agreed work run.
#pragma once

#include <functional>
#include <utility>

#include "core/base/abort.h"
#include "core/engine/driving/intake.h"
#include "core/engine/peers/held_frames.h"
#include "core/engine/peers/outbox.h"
#include "core/engine/peers/router.h"
#include "core/engine/queues/launch_coordinator.h"
#include "core/engine/queues/queues.h"

namespace ronde {

/// Moves all work of the engine on by one step, without waiting for any of it.
/// Threads: the driving thread.
class Progress {
 public:
  /// What a step moves on. All outlive it.
  struct Parts {
    ControlChannel& channel;
    AbortToken& abort;
    Intake& intake;
    Router& router;
    Outbox& outbox;
    Queues& queues;
    LaunchCoordinator& launches;
  };

  /// `on_stall`: see EngineOptions::on_stall; may be empty.
  Progress(const Parts& parts, std::function<void()> on_stall)
      : parts_(parts), on_stall_(std::move(on_stall)), held_(parts.abort) {}

  /// Takes one step; false where there was nothing to do.
  /// Blocks: only for agreed work that it runs, see set_may_run().
  bool step();
  /// Whether steps may run small agreed work in this thread. Otherwise the queue's thread runs it.
  void set_may_run(bool may_run) noexcept { may_run_ = may_run; }
  /// Takes in what has come while a step runs agreed work: a failure of the job ends its waits.
  /// Does nothing at other times.
  void look_for_failure();
  /// Looks up when a step has something to do although nothing comes in, and returns it.
  TimePoint update_deadline() {
    parts_.queues.update_deadline();
    return next_deadline();
  }
  /// That time, as of the last update or step.
  [[nodiscard]] TimePoint next_deadline() const noexcept { return parts_.queues.next_deadline(); }

 private:
  void flush();
  void run_agreed();
  [[nodiscard]] bool collect_agreed();

  const Parts parts_;
  const std::function<void()> on_stall_;
  bool may_run_ = false;
  bool runs_ = false;  // agreed work, in this thread perhaps
  HeldFrames held_;
};

}  // namespace ronde
