// Own parts of ranks, of which partners on other hosts keep copies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bindings/cpp/elastic_copies.h"
#include "bindings/cpp/elastic_worker.h"
#include "core/elastic/own_states.h"
#include "ronde/elastic.h"
#include "ronde/ronde.h"

namespace ronde::elastic {

/// Sends own parts to partners, and those of workers that are gone to others. Threads: one.
class Partners {
 public:
  Partners(Job& job, Copies& copies) : job_(job), copies_(copies) {}

  /// From now on partners get own parts, at each `every`-th commit.
  void enable(int every) { states_ = OwnStates(every); }
  void on_orphan(std::function<void(const Orphan&)> callback) { callback_ = std::move(callback); }
  [[nodiscard]] bool hands_over() const noexcept { return states_.hands_over(); }

  /// Sends the newest copy if that is due. Collective.
  void on_commit(const EpochNote& place, std::int64_t step);
  /// Sends the newest copy, at the start of an epoch. Collective.
  void send(const EpochNote& place, std::int64_t step);
  /// Gives the own parts of workers that are gone to others. step: at which all ranks go on;
  /// nothing if they did not go back. restored: the worker from whose copies this rank goes on; 0:
  /// none. Collective.
  void settle(const Worker& worker, std::optional<std::int64_t> step, WorkerId restored);
  /// All ranks of the epoch have begun.
  void begun(const EpochNote& place) { states_.begun(place); }

 private:
  std::string exchange(const char* name, std::string& bytes,
                       const std::vector<std::int64_t>& splits,
                       std::vector<std::int64_t>* received_splits = nullptr);
  void pass_on();
  void report_lost() const;
  void say_once(const EpochNote& place);

  Job& job_;
  Copies& copies_;
  OwnStates states_;
  std::function<void(const Orphan&)> callback_;
  bool said_ = false;
};

}  // namespace ronde::elastic
