// The end of an elastic job.
#pragma once

#include <functional>
#include <string>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/end_schedule.h"
#include "core/base/clock.h"

namespace ronde {

/// Ends the workers and agents of a job that was asked to end, has failed or has finished.
/// Threads: one.
class JobEnding {
 public:
  struct Hooks {
    std::function<void()> on_stop;     ///< Nothing is to start any more. May come again.
    std::function<void()> on_give_up;  ///< The workers that are left cannot be ended.
  };
  /// All references outlive it.
  JobEnding(const LaunchOptions& options, AgentPool& agents, Console& console, Hooks hooks)
      : options_(options),
        agents_(agents),
        console_(console),
        hooks_(std::move(hooks)),
        schedule_(options.grace) {}

  /// Asks the workers to end, by this signal.
  void stop(int signal);
  /// As stop(); workers that were asked before are killed.
  void insist(int signal);
  /// Lets the others notice a failure by themselves, then ends them.
  void fail(int exit_status, const std::string& text);
  /// Ends the agents: no worker is left, and none will start. `exit_status`: of a job that was not
  /// asked to end, and has not failed.
  void finish(int exit_status);
  /// A worker that leaves may save its state.
  void let_a_worker_save();

  [[nodiscard]] TimePoint deadline() const noexcept { return schedule_.deadline(); }
  void on_time(TimePoint time);

  /// The job was asked to end, has failed or has finished.
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  [[nodiscard]] bool over() const noexcept {
    return finished_ && agents_.empty() && console_.empty();
  }
  [[nodiscard]] int exit_status() const noexcept { return exit_status_; }
  /// Says the exit status and its cause, unless the job has ended well.
  void sum_up();

 private:
  void begin();
  void give_up();

  const LaunchOptions& options_;
  AgentPool& agents_;
  Console& console_;
  const Hooks hooks_;
  EndSchedule schedule_;
  bool begun_ = false;
  bool finished_ = false;
  int exit_status_ = 0;
  std::string cause_;
};

}  // namespace ronde
