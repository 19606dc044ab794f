// The workers of an elastic job that its launcher takes care of.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

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

}  // namespace ronde
