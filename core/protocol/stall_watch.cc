#include "core/protocol/stall_watch.h"

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

/// Whether `waited_ms` has reached a limit that is switched on.
bool reached(std::uint64_t waited_ms, Duration limit) {
  return limit > Duration::zero() && waited_ms >= to_ms(limit);
}

}  // namespace

void StallWatch::submitted(TimePoint now, bool is_only) {
  if (deadline_ != kForever && !is_only) return;
  deadline_ = kForever;
  if (warning_ > Duration::zero()) deadline_ = now + warning_;
  if (error_ > Duration::zero()) deadline_ = std::min(deadline_, now + error_);
}

TimePoint StallWatch::due(const OwnOperation& operation) const {
  TimePoint due = kForever;
  if (warning_ > Duration::zero()) due = operation.noted + warning_;
  if (error_ > Duration::zero() && !operation.given_up) {
    due = std::min(due, operation.submitted + error_);
  }
  return due;
}

std::vector<Overdue> StallWatch::on_time(TimePoint now) {
  std::vector<Overdue> late;
  if (now < deadline_) return late;
  deadline_ = kForever;
  own_.for_each([&](const OpKey& key, OwnOperation& operation) {
    if (due(operation) <= now) {
      const bool fatal = error_ > Duration::zero() && operation.submitted + error_ <= now;
      operation.noted = now;
      operation.given_up = fatal;
      late.push_back({key, fatal, false});
    }
    deadline_ = std::min(deadline_, due(operation));
  });
  return late;
}

void StallWatch::note(const Overdue& overdue, TimePoint now) {
  if (overdue.asks) return ask_about(overdue.key);
  const auto noted = last_noted_.find(overdue.key);
  const bool is_known =
      noted != last_noted_.end() && now - noted->second < std::max(warning_, Duration(1)) / 2;
  if (is_known && !overdue.fatal) return;
  last_noted_[overdue.key] = now;
  ask_about(overdue.key);
}

void StallWatch::ask_about(const OpKey& key) {
  if (std::find(overdue_.begin(), overdue_.end(), key) == overdue_.end()) overdue_.push_back(key);
}

std::optional<QueryFrame> StallWatch::next_query() {
  if (query_.active() || overdue_.empty()) return std::nullopt;
  QueryFrame frame;
  frame.query = ++last_query_;
  const std::size_t count = std::min(overdue_.size(), kKeysPerQuery);
  const auto end = overdue_.begin() + static_cast<std::ptrdiff_t>(count);
  frame.keys.assign(overdue_.begin(), end);
  overdue_.erase(overdue_.begin(), end);
  return frame;
}

StallVerdict StallWatch::judge(const std::vector<StallFact>& facts) const {
  StallVerdict verdict;
  for (const StallFact& fact : facts) {
    if (reached(fact.waited_ms, error_)) {
      const std::string text = stall_text(fact) + "; given up";
      verdict.failures.push_back(
          early_failure(fact.key, static_cast<Collective>(fact.kind), Code::kStalled, text));
      // Ranks that have not submitted it get no error, but they log the warning.
      if (warning_ > Duration::zero()) verdict.warnings.push_back(text);
    } else if (reached(fact.waited_ms, warning_)) {
      verdict.warnings.push_back(stall_text(fact));
    }
  }
  return verdict;
}

void StallWatch::settled(const OpKey& key) {
  last_noted_.erase(key);
  std::erase(overdue_, key);
  query_.drop(key);
}

}  // namespace ronde
