// The state of an elastic job on one rank: what is committed, and what the ranks agree on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cpp/elastic_copies.h"
#include "bindings/cpp/elastic_worker.h"
#include "bindings/elastic/checkpoint_files.h"
#include "bindings/elastic/partners.h"
#include "bindings/elastic/ranks.h"
#include "core/elastic/progress.h"
#include "ronde/elastic.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// Commits and restores parts together with the other ranks. Threads: one.
class State::Impl {
 public:
  /// Throws InvalidArgument for a bad descriptor of a launcher.
  explicit Impl(Job& job);
  ~Impl() {
    if (checkpoints_) end_writing();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] Job& job() noexcept { return job_; }
  /// Null without a launcher of elastic jobs.
  [[nodiscard]] Member* worker() noexcept { return worker_; }
  [[nodiscard]] Copies& copies() noexcept { return copies_; }
  /// From now on partners get own parts, at each `every`-th commit.
  void enable_partners(int every) { partners_ = Partners(every); }
  void on_orphan(std::function<void(const Orphan&)> callback) { on_orphan_ = std::move(callback); }
  void checkpoint(const std::string& path, const CheckpointOptions& options);
  [[nodiscard]] std::int64_t step() const noexcept { return progress_.step(); }
  void add_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  void commit();
  void check_host_updates() { act_on(agree_on_changes()); }
  /// After a failure. Where choose() may want the older copy, it alone restores.
  void go_back() {
    if (!progress_.is_undecided()) copies_.restore();
  }
  void restore() { copies_.restore(); }
  void sync();

  /// Makes the first copy, of step 0, or adopts those of a worker that has died.
  void prepare();
  /// Starts a job that is not elastic from the newest checkpoint, if there is one. Collective.
  void resume();
  /// Writes the newest copy, as the job ends.
  void write_committed();
  /// Leaves the epoch and joins the next one. False if this worker is to end. Collective.
  [[nodiscard]] bool rejoin();
  /// Restores the step from which all go on, at the start of an epoch. True if it must be sent.
  /// restored: this rank goes back to a copy. skip_sync: it need not be sent, if all ranks say so.
  /// Collective.
  [[nodiscard]] bool choose(bool restored, bool skip_sync);
  void call_back() const;
  /// Gives all ranks the chosen state. Collective.
  void begin(bool send);
  /// Returns once all ranks have returned: until then they may need this one. Throws HostsUpdated.
  void finish();

 private:
  CommitFacts agree_on_changes();
  [[nodiscard]] std::optional<Change> new_change();
  static void act_on(const CommitFacts& facts);
  void copy();
  void end_adoption(bool used);
  void broadcast();
  [[nodiscard]] Ranks ranks();
  void send_own();
  void settle_own();
  void report_lost(const std::vector<WorkerId>& lost) const;
  void write_due();
  void tell_checkpoints(StartFacts& facts);
  void end_writing();
  void report_checkpoints();
  void load(const Start& start);

  Job& job_;
  Member* const worker_;
  Copies copies_;
  Partners partners_;
  std::function<void(const Orphan&)> on_orphan_;
  std::unique_ptr<CheckpointFiles> checkpoints_;  // null: none are written
  int checkpoint_every_ = 1;
  std::vector<std::function<void()>> callbacks_;
  Progress progress_;
  std::optional<std::int64_t> chosen_;  // the step from which all go on in this epoch
  std::uint64_t serial_ = 0;            // of the last change that was acted on
};

}  // namespace ronde::elastic
