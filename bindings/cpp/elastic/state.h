// The state of an elastic job on one rank: what is committed, and what the ranks agree on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bindings/cpp/elastic/agreement.h"
#include "bindings/cpp/elastic/copies.h"
#include "bindings/cpp/elastic/worker.h"
#include "ronde/elastic.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// Commits and restores parts together with the other ranks. Threads: one.
class State::Impl {
 public:
  /// Throws InvalidArgument for a bad descriptor of a launcher.
  explicit Impl(Job& job);

  [[nodiscard]] Job& job() noexcept { return job_; }
  /// Null without a launcher of elastic jobs.
  [[nodiscard]] Worker* worker() noexcept { return worker_; }
  [[nodiscard]] Copies& copies() noexcept { return copies_; }
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  void add_callback(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  void commit();
  void check_host_updates() { act_on(agree_on_changes()); }
  void restore() { copies_.restore(); }
  void sync();

  /// Makes the first copy, of step 0, or adopts those of a worker that has died.
  void prepare();
  /// Leaves the epoch and joins the next one. False if this worker is to end. Collective.
  [[nodiscard]] bool rejoin();
  /// Restores the newest committed step at the start of an epoch. True if it must be sent.
  /// restored: this rank has gone back to its newest copy. skip_sync: it need not be sent, if all
  /// ranks say so. Collective.
  [[nodiscard]] bool choose(bool restored, bool skip_sync);
  void call_back() const;
  /// Gives all ranks the chosen state. Collective.
  void begin(bool send);
  /// Returns once all ranks have returned: until then they may need this one. Throws HostsUpdated.
  void finish();

 private:
  std::optional<Change> agree_on_changes();
  static void act_on(std::optional<Change> change);
  std::int64_t restore_chosen(const std::vector<StartRow>& rows, bool restored);
  std::int64_t resume(const std::vector<StartRow>& rows);
  void go_back(std::int64_t step);
  void end_adoption(bool used);
  void broadcast();

  Job& job_;
  Worker* const worker_;
  Copies copies_;
  std::vector<std::function<void()>> callbacks_;
  std::int64_t step_ = 0;         // of the newest copy
  std::int64_t older_step_ = -1;  // of the copy before it; -1: there is none
  std::int64_t certain_ = 0;      // the newest step that all ranks have copied
  int root_ = 0;                  // the rank that sync() starts from
  std::uint64_t serial_ = 0;      // of the last change that was acted on
};

}  // namespace ronde::elastic
