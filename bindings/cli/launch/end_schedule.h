// How the ranks of a job are made to end.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/clock.h"

namespace ronde {

/// The steps that end a job's ranks, and their times: SIGTERM, SIGKILL, agents are given up.
/// Threads: one.
class EndSchedule {
 public:
  enum class Step { kTerminate, kKill, kGiveUp };

  /// `grace`: between two steps.
  explicit EndSchedule(std::chrono::milliseconds grace) : grace_(grace) {}

  void terminate_at(TimePoint time) noexcept { terminate_ = time; }
  /// The ranks have been asked to end.
  void on_asked(TimePoint time) noexcept {
    terminate_ = kForever;
    if (kill_ == kForever) kill_ = time + grace_;
  }
  /// Ranks that have been asked are killed now.
  void hurry(TimePoint time) noexcept {
    if (kill_ != kForever) kill_ = time;
  }
  /// They get more time than the grace, as they save their state.
  void allow_until(TimePoint time) noexcept {
    if (kill_ != kForever) kill_ = std::max(kill_, time);
  }
  void clear() noexcept { terminate_ = kill_ = give_up_ = kForever; }

  /// The next step if it is due; call it again until there is none.
  std::optional<Step> due(TimePoint time) noexcept;
  [[nodiscard]] TimePoint deadline() const noexcept {
    return std::min({terminate_, kill_, give_up_});
  }
  /// True before the SIGTERM that terminate_at() set.
  [[nodiscard]] bool will_terminate() const noexcept { return terminate_ != kForever; }

 private:
  const std::chrono::milliseconds grace_;
  TimePoint terminate_ = kForever;
  TimePoint kill_ = kForever;
  TimePoint give_up_ = kForever;
};

inline std::optional<EndSchedule::Step> EndSchedule::due(TimePoint time) noexcept {
  if (time >= terminate_) {
    terminate_ = kForever;
    kill_ = time + grace_;
    return Step::kTerminate;
  }
  if (time >= kill_) {
    kill_ = kForever;
    give_up_ = time + grace_;
    return Step::kKill;
  }
  if (time < give_up_) return std::nullopt;
  give_up_ = kForever;
  return Step::kGiveUp;
}

}  // namespace ronde
