// The workers of an elastic job that its launcher takes care of, when they start, and their notes
// in the messages of agents.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/cli/launch/messages.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/elastic/commands.h"
#include "core/elastic/notes.h"

namespace ronde {

/// A worker whose process has not ended, or has not started yet.
struct LaunchedWorker {
  std::string host;
  int pid = 0;               ///< 0: it has not started.
  bool stopped = false;      ///< The director wanted its end.
  elastic::ReadyNote ready;  ///< The last one.
};

/// Knows the workers by number. Threads: one.
class WorkerTable {
 public:
  void add(elastic::WorkerId worker, const std::string& host) { workers_[worker].host = host; }
  void remove(elastic::WorkerId worker) {
    workers_.erase(worker);
    removed_ = true;
  }
  void remove_host(const std::string& host) {
    std::erase_if(workers_, [&](const auto& worker) { return worker.second.host == host; });
  }
  void remove_unstarted() {
    std::erase_if(workers_, [](const auto& worker) { return worker.second.pid == 0; });
  }
  void clear() noexcept { workers_.clear(); }

  /// Null if there is no such worker any more.
  [[nodiscard]] LaunchedWorker* find(elastic::WorkerId worker) {
    const auto found = workers_.find(worker);
    return found == workers_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] bool any_on(const std::string& host) const {
    return std::ranges::any_of(workers_,
                               [&](const auto& worker) { return worker.second.host == host; });
  }
  /// True if a worker was removed since the last call: its host may have no use any more.
  [[nodiscard]] bool take_removed() noexcept { return std::exchange(removed_, false); }
  [[nodiscard]] bool empty() const noexcept { return workers_.empty(); }

 private:
  std::map<elastic::WorkerId, LaunchedWorker> workers_;
  bool removed_ = false;
};

/// The number under which agents know a worker; it also marks the worker's lines of output.
inline int agent_rank(elastic::WorkerId worker) { return static_cast<int>(worker - 1); }
inline elastic::WorkerId worker_of(int agent_rank) {
  return static_cast<elastic::WorkerId>(agent_rank) + 1;
}

/// A note to a worker, as a frame for its agent.
template <typename Note>
std::string note_frame(elastic::WorkerId worker, const Note& note) {
  return encode(NoteMessage{agent_rank(worker), elastic::encode_note(note)});
}

/// Calls `use` with a note that a worker sends. Errors: kInvalidArgument where it is malformed, or
/// is one that only launchers send.
template <typename Use>
Status visit_note(std::string_view bytes, Use use) {
  const auto with = [&]<typename Note>(Note) -> Status {
    RONDE_ASSIGN_OR_RETURN(const Note note, elastic::decode_note<Note>(bytes));
    use(note);
    return {};
  };
  RONDE_ASSIGN_OR_RETURN(const elastic::NoteType type, elastic::note_type(bytes));
  switch (type) {
    case elastic::NoteType::kReady:
      return with(elastic::ReadyNote{});
    case elastic::NoteType::kHolds:
      return with(elastic::HoldsNote{});
    case elastic::NoteType::kLeaving:
      return with(elastic::LeavingNote{});
    case elastic::NoteType::kFinished:
      return with(elastic::FinishedNote{});
    default:
      return {Code::kInvalidArgument, "a note that only launchers send"};
  }
}

/// Keeps back workers that are to start in the middle of a job: their start takes processor time,
/// and the survivors of a failure go first. Threads: one.
class StartQueue {
 public:
  static constexpr std::chrono::milliseconds kLongest{100};    ///< A worker is kept back.
  static constexpr std::chrono::milliseconds kAfterEpoch{20};  ///< In which survivors connect.

  /// `at_once`: for the first workers of a job.
  void add(const elastic::StartWorker& start, bool at_once, TimePoint time) {
    if (waiting_.empty()) deadline_ = kForever;
    deadline_ = std::min(deadline_, at_once ? time : time + kLongest);
    waiting_.push_back(start);
  }
  /// An epoch has begun.
  void on_epoch(TimePoint time) noexcept {
    if (!waiting_.empty()) deadline_ = std::min(deadline_, time + kAfterEpoch);
  }
  /// The workers to start now.
  std::vector<elastic::StartWorker> due(TimePoint time) {
    if (time < deadline_) return {};
    deadline_ = kForever;
    return std::exchange(waiting_, {});
  }
  /// kForever while none waits.
  [[nodiscard]] TimePoint deadline() const noexcept {
    return waiting_.empty() ? kForever : deadline_;
  }

  /// True if the worker waited; it will not start.
  bool remove(elastic::WorkerId worker) {
    return std::erase_if(waiting_, [&](const auto& each) { return each.worker == worker; }) > 0;
  }
  void remove_host(const std::string& host) {
    std::erase_if(waiting_, [&](const auto& each) { return each.host == host; });
  }
  void clear() noexcept { waiting_.clear(); }

 private:
  std::vector<elastic::StartWorker> waiting_;
  TimePoint deadline_ = kForever;
};

}  // namespace ronde
