// Decides which workers of an elastic job run, and in which epoch. The launcher asks it alone, so
// that there is one answer; it does nothing itself: the launcher tells it events and carries out
// its commands.
//
// Rules:
// - A new epoch begins when every living worker of the last one is ready. It takes all ready
//   workers, those that hold the state first; it needs min_workers of them.
// - Living workers that are not ready are waited for, as they may compute. If all that is missing
//   are workers that others have lost, they are stopped after a grace: they are frozen or cut off.
//   Workers whose processes have been stopped for too long are killed in any case.
// - Before a worker starts on a host that has none, the host is tried: if it and the others do not
//   reach each other, it gets none for a pause. The epoch goes on meanwhile.
// - A worker that is ready and in no epoch makes the members' next commit end the epoch.
// - If all that held the state are gone, an epoch waits for workers that start: they may have
//   copies of it. So do agents of hosts; a worker starts there even if the host may have none. If
//   nobody has copies, and nobody can load a checkpoint, the job fails.
// - The job succeeds if all workers of its last epoch end with status 0. If one does while others
//   still need it, the job fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/commands.h"
#include "core/elastic/epoch_policy.h"
#include "core/elastic/epoch_watch.h"
#include "core/elastic/host_table.h"
#include "core/elastic/notes.h"
#include "core/elastic/roster.h"

namespace ronde::elastic {

/// The decisions of one job. Events may come in any order; those of unknown or ended workers are
/// ignored. Threads: one.
class Director {
 public:
  explicit Director(const DirectorOptions& options)
      : options_(options), hosts_(options.pauses), policy_(options) {}

  /// The hosts that there are from now on. Starts the first workers.
  void set_hosts(const std::vector<HostPlaces>& hosts, TimePoint time);
  /// Its process runs, and was given copies of this step.
  void on_started(WorkerId worker, CopyStep copies);
  void on_ready(WorkerId worker, const ReadyNote& note, TimePoint time);
  void on_holds(WorkerId worker);
  void on_leaving(WorkerId worker, TimePoint time);
  void on_finished(WorkerId worker, TimePoint time);
  /// The process has ended.
  void on_ended(WorkerId worker, const WorkerEnd& end, TimePoint time);
  /// The process has been stopped for so long: by SIGSTOP, or a debugger. It is killed.
  void on_frozen(WorkerId worker, std::chrono::seconds stopped_for, TimePoint time);
  /// Nothing of this host can be reached any more: its workers have ended.
  void on_host_lost(const std::string& host, const std::string& why, TimePoint time);
  /// The end of a trial. `missed`: what could not be reached; empty: nothing.
  void on_host_tried(const std::string& host, const std::string& missed, TimePoint time);
  /// Call it at next_deadline().
  void on_time(TimePoint time) { settle(time); }

  /// The commands since the last call, in order.
  std::vector<Command> take_commands() { return commands_.take(); }
  /// kForever if nothing is to happen by itself.
  [[nodiscard]] TimePoint next_deadline(TimePoint time) const;

  [[nodiscard]] EpochId epoch() const noexcept { return epoch_; }
  /// No worker lives, and none will be started.
  [[nodiscard]] bool over() const noexcept { return ending() && workers_.empty(); }
  /// The job's exit status, once it is over.
  [[nodiscard]] int exit_status() const noexcept { return exit_status_; }

 private:
  using State = RosterWorker::State;
  using Entry = Roster::Entry;
  static constexpr std::chrono::seconds kFirstFetchPause{1};  // doubled at each further one

  [[nodiscard]] bool ending() const noexcept { return finished_ || failed_; }
  void settle(TimePoint time, bool hosts_come = false);
  void settle_epoch(TimePoint time);
  [[nodiscard]] int places_left(TimePoint time) const;
  [[nodiscard]] bool has_room(const std::string& host, TimePoint time) const;
  WorkerId start(const std::string& host);
  void start_workers(TimePoint time, bool awaited);
  [[nodiscard]] bool must_try(const std::string& host, bool awaited);
  [[nodiscard]] std::optional<std::string> host_with_last_copies() const;
  void fetch_state(TimePoint time);
  [[nodiscard]] CopyStep copy_to_come() const;
  void stop_suspects(TimePoint time);
  void send_change(TimePoint time);
  void send_void(const std::string& why);
  void end_leftovers();
  void refuse_early_end();
  void stop(WorkerId id, RosterWorker& worker);
  void count_failure(const std::string& host, TimePoint time);
  void fail(int exit_status, const std::string& text);
  void take_failure(WorkerId worker, const RosterWorker& gone, const WorkerEnd& end,
                    TimePoint time);
  void take_quiet_end(WorkerId worker, const RosterWorker& gone, const WorkerEnd& end,
                      TimePoint time);

  void try_epoch(TimePoint time);
  void dismiss_leavers();
  void drop_unreachable_hosts(TimePoint time);
  [[nodiscard]] bool tries_cut_hosts();
  void drop(const std::string& host, TimePoint time);
  void begin(const EpochPolicy::Takers& takers);

  const DirectorOptions options_;
  HostTable hosts_;
  CopyTable copies_;
  HostChecks checks_;
  std::set<std::string> unreached_;  // that failed the last trial, which was reported
  Roster workers_;
  Commands commands_;
  EpochPolicy policy_;
  EpochId epoch_ = 0;
  EpochWatch watch_;  // of this epoch
  std::uint64_t change_serial_ = 0;
  bool closing_ = false;       // a member of this epoch has ended, or is ready again
  bool void_ = false;          // a member of this epoch has ended
  bool state_exists_ = false;  // some worker held the state once
  TimePoint fetch_at_{};       // the next worker for its copies alone, at the earliest
  Duration fetch_pause_ = kFirstFetchPause;
  bool finished_ = false;
  std::string quiet_end_;  // of a member with status 0, whose function had not returned
  bool failed_ = false;
  int exit_status_ = 0;
  std::string cause_;  // of the end of this epoch, for people
  WorkerEnd last_failure_{1, "no worker is left"};
};

}  // namespace ronde::elastic
