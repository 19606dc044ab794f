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
  const TimePoint due = Lateness{now}.due(limits_);
  if (due == kForever) return kForever;
  return now + std::clamp((due - now) / 4, kShortestPause, kLongestPause);
}

/// When the operation began to be late, on the steady clock; 0 where it cannot be.
std::int64_t RecordWatch::late_since(const OperationRecord& record, TimePoint now) const {
  if (may_wait(record)) return 0;
  const std::int64_t start = record.at(OperationStage::kStarted);
  if (start != 0 || record.call != 0)
    return start != 0 ? start : record.at(OperationStage::kSubmitted);
  const bool waits_for_turn = record.at(OperationStage::kAgreed) != 0;
  if (waits_for_turn || now - warned_ < 2 * limits_.warning) return 0;
  // The negotiation's own warning comes first.
  return record.at(OperationStage::kSubmitted) +
         to_ns(std::max(limits_.warning / 2, limits_.error / 4));
}

/// All operations that may be late one day, by number.
std::vector<LateRecord> RecordWatch::waiting(const OperationRing& ring, TimePoint now) const {
  std::vector<LateRecord> all;
  for (OperationRecord& record : ring.pending()) {
    const std::int64_t since = late_since(record, now);
    if (since == 0) continue;
    if (!all.empty() && move_as_one(all.back().record, record)) {
      ++all.back().others;
      continue;
    }
    all.push_back({.record = std::move(record), .late_ns = to_ns(now) - since});
  }
  return all;
}

std::vector<LateRecord> RecordWatch::look(const OperationRing& ring, TimePoint now) {
  next_look_ = after(now);
  std::vector<LateRecord> late;
  std::unordered_map<std::uint64_t, Lateness> known;
  for (LateRecord& one : waiting(ring, now)) {
    const std::uint64_t number = one.record.number;
    Lateness& lateness = known.emplace(number, known_[number]).first->second;
    lateness.since = now - std::chrono::nanoseconds(one.late_ns);
    if (lateness.due(limits_) > now) continue;
    one.over_limit = lateness.report(limits_, now);
    late.push_back(std::move(one));
  }
  known_ = std::move(known);
  return late;
}

}  // namespace ronde
