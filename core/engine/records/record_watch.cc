#include "core/engine/records/record_watch.h"

#include <algorithm>
#include <chrono>

namespace ronde {
namespace {

constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr Duration kShortestPause = std::chrono::milliseconds(100);

/// Operations that some ranks may rightly await for as long as they like.
bool may_wait(const OperationRecord& record) {
  return record.kind == operation_kind_name(kSendKind) ||
         record.kind == operation_kind_name(kRecvKind) ||
         record.kind == to_string(Collective::kJoin);
}

bool move_as_one(const OperationRecord& a, const OperationRecord& b) {
  const std::int64_t start = a.at(OperationStage::kStarted);
  return a.set == b.set && start != 0 && start == b.at(OperationStage::kStarted);
}

}  // namespace

TimePoint RecordWatch::after(TimePoint now) const {
  Duration limit = warning_ > Duration(0) ? warning_ : error_;
  if (error_ > Duration(0)) limit = std::min(limit, error_);
  if (limit == Duration(0)) return kForever;
  return now + std::clamp(limit / 4, kShortestPause, kLongestPause);
}

/// When the operation began to be late, on the steady clock; 0 where it cannot be.
std::int64_t RecordWatch::late_since(const OperationRecord& record, TimePoint now) const {
  if (may_wait(record)) return 0;
  const std::int64_t start = record.at(OperationStage::kStarted);
  if (start != 0 || record.call != 0)
    return start != 0 ? start : record.at(OperationStage::kSubmitted);
  const bool waits_for_turn = record.at(OperationStage::kAgreed) != 0;
  if (waits_for_turn || now - warned_ < 2 * warning_) return 0;
  // The negotiation's own warning comes first.
  return record.at(OperationStage::kSubmitted) + to_ns(std::max(warning_ / 2, error_ / 4));
}

bool RecordWatch::is_due(const LateRecord& late, TimePoint now) const {
  const auto told = told_.find(late.record.number);
  if (late.over_limit && (told == told_.end() || !told->second.over_limit)) return true;
  if (warning_ == Duration(0) || late.late_ns < to_ns(warning_)) return false;
  return told == told_.end() || to_ns(now) - told->second.at_ns >= to_ns(warning_);
}

std::vector<LateRecord> RecordWatch::late(const OperationRing& ring, TimePoint now) const {
  std::vector<LateRecord> all;
  for (OperationRecord& record : ring.pending()) {
    const std::int64_t since = late_since(record, now);
    if (since == 0) continue;
    if (!all.empty() && move_as_one(all.back().record, record)) {
      ++all.back().others;
      continue;
    }
    const std::int64_t late_ns = to_ns(now) - since;
    const bool over_limit = error_ > Duration(0) && late_ns >= to_ns(error_);
    all.push_back({.record = std::move(record), .late_ns = late_ns, .over_limit = over_limit});
  }
  return all;
}

std::vector<LateRecord> RecordWatch::look(const OperationRing& ring, TimePoint now) {
  next_look_ = after(now);
  std::vector<LateRecord> due;
  std::unordered_map<std::uint64_t, Told> told;
  for (LateRecord& one : late(ring, now)) {
    const std::uint64_t number = one.record.number;
    if (is_due(one, now)) {
      told[number] = {.at_ns = to_ns(now), .over_limit = one.over_limit};
      due.push_back(std::move(one));
    } else if (const auto known = told_.find(number); known != told_.end()) {
      told.insert(*known);
    }
  }
  told_ = std::move(told);
  return due;
}

}  // namespace ronde
