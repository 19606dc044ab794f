// Decides which workers of an elastic job run, and in which epoch. The launcher asks it alone, so
// that there is one answer; it does nothing itself: the launcher tells it events and carries out
// its commands.
//
// Rules:
// - A new epoch begins when every living worker of the last one is ready. It takes all ready
//   workers, those that hold the state first; it needs min_workers of them.
// - Living workers that are not ready are waited for, as they may compute. If all that is missing
//   are workers that others have lost, they are stopped after a grace: they are frozen or cut off.
// - A worker that is ready and in no epoch makes the members' next commit end the epoch.
// - If all that held the state are gone, and nobody can load a checkpoint, the job fails.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {

/// What becomes of the place of a worker that failed.
enum class FailurePolicy : std::uint8_t {
  kRespawn,    ///< A new worker starts on the same host, after growing pauses.
  kBlacklist,  ///< The host gets no workers until its cool-down is over.
};

/// The job as its user wants it.
struct DirectorOptions {
  int min_workers = 1;
  int max_workers = 0;   ///< 0: as many as there are slots.
  int reset_limit = -1;  ///< Epochs after the first; -1: any number.
  FailurePolicy on_failure = FailurePolicy::kRespawn;
  std::chrono::milliseconds elastic_timeout{600'000};  ///< With fewer than min_workers.
  std::chrono::milliseconds start_timeout{60'000};     ///< For workers of the first epoch.
  /// Of a blacklisted host; the second is the longest. Zero: for ever.
  std::chrono::milliseconds cooldown_first{0};
  std::chrono::milliseconds cooldown_longest{0};
};

/// A host and the workers that it may run.
struct HostPlaces {
  std::string name;
  int slots = 0;
};

/// The end of a worker's process.
struct WorkerEnd {
  int exit_status = 0;  ///< As a shell has it: 128 + signal.
  std::string text;     ///< "was killed by signal 9 (Killed)".
};

// The commands.

/// Start a worker.
struct StartWorker {
  WorkerId worker = 0;
  std::string host;
};
/// Kill a worker; its end is reported as any.
struct StopWorker {
  WorkerId worker = 0;
};
/// Send all of them their places in a new epoch.
struct BeginEpoch {
  EpochId epoch = 0;
  std::vector<EpochWorker> workers;  ///< By rank.
  std::string why;
};
/// Send them the change.
struct SendChange {
  std::vector<WorkerId> workers;
  ChangedNote note;
};
/// Send it the dismissal.
struct DismissWorker {
  WorkerId worker = 0;
  DismissedNote note;
};
/// Print a line for people.
struct Report {
  std::string text;
};
/// The job has failed: end all workers, exit with this status.
struct FailJob {
  int exit_status = 1;
  std::string text;
};
using Command = std::variant<StartWorker, StopWorker, BeginEpoch, SendChange, DismissWorker, Report,
                             FailJob>;

/// The decisions of one job. Events may come in any order; those of unknown or ended workers are
/// ignored. Threads: one.
class Director {
 public:
  explicit Director(const DirectorOptions& options) : options_(options) {}

  /// The hosts that there are from now on.
  void set_hosts(const std::vector<HostPlaces>& hosts, TimePoint time);
  void on_ready(WorkerId worker, const ReadyNote& note, TimePoint time);
  void on_holds(WorkerId worker);
  void on_leaving(WorkerId worker, TimePoint time);
  void on_finished(WorkerId worker);
  /// The process has ended.
  void on_ended(WorkerId worker, const WorkerEnd& end, TimePoint time);
  /// Nothing of this host can be reached any more: its workers have ended.
  void on_host_lost(const std::string& host, const std::string& why, TimePoint time);
  /// Call it at next_deadline().
  void on_time(TimePoint time);

  /// The commands since the last call, in order.
  std::vector<Command> take_commands() { return std::exchange(commands_, {}); }
  /// kForever if nothing is to happen by itself.
  [[nodiscard]] TimePoint next_deadline() const;

  [[nodiscard]] EpochId epoch() const noexcept { return epoch_; }
  /// Every worker has ended, and none will be started.
  [[nodiscard]] bool over() const;
};

}  // namespace ronde::elastic
