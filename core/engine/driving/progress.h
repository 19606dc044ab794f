// One step of the engine: tasks in, frames in, frames out, agreed work run.
#pragma once

#include <functional>
#include <utility>

#include "core/engine/frames/frame.h"
#include "core/engine/peers/membership.h"
#include "core/engine/peers/router.h"
#include "core/engine/queues/queues.h"
#include "core/engine/queues/task_queue.h"

namespace ronde {

/// Moves all work of the engine on by one step, without waiting for any of it.
/// Threads: the driving thread.
class Progress {
 public:
  /// `on_stall`: see EngineOptions::on_stall; may be empty. All references outlive it.
  Progress(ControlChannel& channel, TaskQueue& tasks, Router& router, Queues& queues,
           Membership& membership, std::function<void()> on_stall)
      : channel_(channel),
        tasks_(tasks),
        router_(router),
        queues_(queues),
        membership_(membership),
        on_stall_(std::move(on_stall)),
        held_(tasks.abort()) {}

  /// Takes one step; false where there was nothing to do.
  /// Blocks: only for agreed work that it runs, see set_may_run().
  bool step();
  /// Lets steps run small agreed work in this thread. Otherwise the queue's thread runs it.
  void set_may_run(bool may_run) noexcept { may_run_ = may_run; }
  /// Takes in what has come while a step runs agreed work: a failure of the job ends its waits.
  /// Does nothing at other times.
  void look_for_failure();
  /// Looks up and returns when a step has work next, even if nothing arrives.
  TimePoint update_deadline() {
    queues_.update_deadline();
    return next_deadline();
  }
  /// The next deadline, as of the last update or step.
  [[nodiscard]] TimePoint next_deadline() const noexcept { return queues_.next_deadline(); }
  /// True if a thread of any queue is at work; see Queues::executing().
  [[nodiscard]] bool executing() const { return queues_.executing(); }

 private:
  void flush();
  void run_agreed();

  ControlChannel& channel_;
  TaskQueue& tasks_;
  Router& router_;
  Queues& queues_;
  Membership& membership_;
  const std::function<void()> on_stall_;
  bool may_run_ = false;
  bool runs_ = false;       // agreed work, in this thread perhaps
  bool is_broken_ = false;  // the job, and operations have ended for that
  HeldFrames held_;
};

}  // namespace ronde
