// When the workers of an elastic job start.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/elastic/director.h"

namespace ronde {

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
