// The workers of an elastic job that live, as its launcher knows them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/elastic/host_table.h"
#include "core/elastic/notes.h"

namespace ronde::elastic {

/// A worker that lives.
struct RosterWorker {
  enum class State : std::uint8_t {
    kStarting,  ///< Its process has not been ready yet.
    kReady,     ///< It waits for the next epoch.
    kMember,    ///< It takes part in the newest epoch.
    kFinished,  ///< It is in no epoch any more; only its end is awaited.
  };
  std::string host;
  State state = State::kStarting;
  bool holds_state = false;
  bool asked_to_leave = false;
  bool surplus = false;          ///< Its host has fewer slots now.
  bool stopped = false;          ///< By a command: its end is no failure.
  bool awaited = false;          ///< The next epoch waits for it while it starts.
  CopyStep inherited = kNoCopy;  ///< Copies of the state that it was given at its start.
  int last_rank = -1;
  ReadyNote ready;  ///< The last one.

  [[nodiscard]] bool leaving() const noexcept { return asked_to_leave || surplus; }
  /// The step from which others can start; of one that holds the state, the newest.
  [[nodiscard]] CopyStep state_step() const noexcept {
    return holds_state ? std::numeric_limits<CopyStep>::max() : inherited;
  }
  /// True if it is to take part in later epochs.
  [[nodiscard]] bool stays() const noexcept { return !leaving() && !stopped; }
};

/// The living workers by number. A number is never used again. Threads: one.
class Roster {
 public:
  using State = RosterWorker::State;
  using Entry = std::pair<const WorkerId, RosterWorker>;

  /// Adds a worker that is to start on this host, and gives its number.
  WorkerId add(const std::string& host);
  /// Removes a worker that has ended, and gives what was known of it; nothing if it is not here.
  std::optional<RosterWorker> remove(WorkerId worker);
  void remove_host(const std::string& host);

  /// Null if the worker has ended.
  [[nodiscard]] RosterWorker* find(WorkerId worker);
  [[nodiscard]] auto begin() noexcept { return workers_.begin(); }
  [[nodiscard]] auto end() noexcept { return workers_.end(); }
  [[nodiscard]] auto begin() const noexcept { return workers_.begin(); }
  [[nodiscard]] auto end() const noexcept { return workers_.end(); }
  [[nodiscard]] bool empty() const noexcept { return workers_.empty(); }

  [[nodiscard]] int count(State state) const;
  [[nodiscard]] int count_on(const std::string& host) const;
  [[nodiscard]] int count_staying() const;
  /// The newest state_step() of ready workers that stay; kNoCopy without one.
  [[nodiscard]] CopyStep newest_that_stays() const;
  [[nodiscard]] std::vector<WorkerId> members() const;
  /// True if there are members, all of them among `workers`.
  [[nodiscard]] bool members_are_among(const std::set<WorkerId>& workers) const;

  /// Marks the workers beyond their host's slots, the newest of a host first.
  void mark_surplus(const std::function<int(const std::string& host)>& slots);

  /// The ready workers by rank of the next epoch: those that hold the state first, in their old
  /// order; then new ones, host by host in the order of `hosts`, those with the newest copies
  /// first.
  [[nodiscard]] std::vector<Entry*> ready_in_order(const std::vector<std::string>& hosts);

 private:
  std::map<WorkerId, RosterWorker> workers_;
  WorkerId last_ = 0;
};

}  // namespace ronde::elastic
