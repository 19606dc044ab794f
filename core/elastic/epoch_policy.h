// Decides if the next epoch of an elastic job may begin.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/host_table.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// The job as its user wants it.
struct DirectorOptions {
  int min_workers = 1;
  int max_workers = 0;   ///< 0: as many as there are slots.
  int reset_limit = -1;  ///< Epochs after the first; -1: any number.
  HostPauses pauses{};   ///< Of hosts whose workers failed.
  /// As Horovod: the epoch ends when hosts come, and the next one waits until their workers have
  /// started. Else it ends when these workers are ready.
  bool await_new_hosts = false;
  std::chrono::milliseconds elastic_timeout{600'000};  ///< With fewer than min_workers.
  std::chrono::milliseconds start_timeout{60'000};     ///< For workers of the first epoch.
};

/// The end of a worker's process.
struct WorkerEnd {
  int exit_status = 0;           ///< As a shell has it: 128 + signal.
  std::string text{};            ///< "was killed by signal 9 (Killed)".
  CopyStep copy_step = kNoCopy;  ///< Its copies of the state, which its host's agent keeps.
};

/// The job when the members of its last epoch have all ended or are ready.
struct JobFacts {
  EpochId epoch = 0;          ///< The last one.
  bool state_exists = false;  ///< Some worker held the state once.
  bool nobody_comes = false;  ///< No worker lives, and none will be started by itself.
  /// The newest copy of the state with agents: a worker will start there.
  CopyStep copy_to_come = kNoCopy;
  std::string cause{};  ///< Of the end of the last epoch; empty: a change.
  WorkerEnd last_failure{};
};

/// The answer.
struct Verdict {
  enum class Kind : std::uint8_t { kBegin, kWait, kFail };
  Kind kind = Kind::kBegin;
  std::string text;     ///< kWait: a line to report, if not empty. kFail: the reason.
  int exit_status = 1;  ///< kFail only.
};

/// Waits for workers that start, for enough of them, and for copies of a state that nobody holds.
/// Threads: one.
class EpochPolicy {
 public:
  using Takers = std::vector<Roster::Entry*>;

  explicit EpochPolicy(const DirectorOptions& options) : options_(options) {}

  /// The first hosts are known: workers of the first epoch start, if they have not yet.
  void on_first_hosts(TimePoint time) noexcept { started_ = std::min(started_, time); }
  /// Workers that the next epoch waits for start now.
  void on_start(TimePoint time) noexcept { started_ = time; }
  void on_begin() noexcept { started_ = unheld_since_ = coming_since_ = kForever; }

  /// The first epoch waits for all workers that have started. One after a failure does not.
  [[nodiscard]] bool awaits_starters(const Roster& workers, const JobFacts& job,
                                     TimePoint time) const;
  /// The workers of the next epoch, by rank. `hosts` in their order.
  [[nodiscard]] Takers takers(Roster& workers, const std::vector<std::string>& hosts) const;
  /// Fails after the elastic timeout; where the state is lost; beyond the reset limit.
  [[nodiscard]] Verdict judge(const Roster& workers, const Takers& takers, const JobFacts& job,
                              TimePoint time);
  [[nodiscard]] TimePoint next_deadline(TimePoint time) const;

 private:
  [[nodiscard]] Verdict judge_number(const Roster& workers, std::size_t ready, const JobFacts& job,
                                     TimePoint time);
  [[nodiscard]] bool awaits_copies(const Roster& workers, const Takers& takers, const JobFacts& job,
                                   TimePoint time);

  const DirectorOptions options_;
  TimePoint started_ = kForever;        // the workers that the next epoch waits for
  TimePoint waiting_since_ = kForever;  // for enough workers
  TimePoint unheld_since_ = kForever;   // no ready worker holds the state
  TimePoint coming_since_ = kForever;   // and those that start may have copies of it
};

}  // namespace ronde::elastic
