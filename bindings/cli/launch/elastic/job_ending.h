// The end of an elastic job.
#pragma once

#include <chrono>
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
  struct Parts {
    AgentPool& agents;
    Console& console;
    std::function<void()> on_stop;     ///< Nothing is to start any more. May come again.
    std::function<void()> on_give_up;  ///< The workers that are left cannot be ended.
  };
  JobEnding(const LaunchOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)), schedule_(options.grace) {}

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
    return finished_ && parts_.agents.empty() && parts_.console.empty();
  }
  [[nodiscard]] int exit_status() const noexcept { return exit_status_; }
  /// Says the exit status and its cause, unless the job has ended well.
  void sum_up();

 private:
  void begin();
  void give_up();

  const LaunchOptions& options_;
  const Parts parts_;
  EndSchedule schedule_;
  bool begun_ = false;
  bool finished_ = false;
  int exit_status_ = 0;
  std::string cause_;
};

}  // namespace ronde
