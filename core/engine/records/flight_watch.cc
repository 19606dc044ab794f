#include "core/engine/records/flight_watch.h"

#include <algorithm>
#include <chrono>

namespace ronde {
namespace {

constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr Duration kShortestPause = std::chrono::milliseconds(100);

/// Operations that some ranks may rightly await for as long as they like.
bool may_wait(const Flight& flight) {
  return flight.kind == flight_kind_name(kSendFlight) ||
         flight.kind == flight_kind_name(kRecvFlight) ||
         flight.kind == to_string(Collective::kJoin);
}

bool move_as_one(const Flight& a, const Flight& b) {
  const std::int64_t start = a.at(FlightStage::kStarted);
  return a.set == b.set && start != 0 && start == b.at(FlightStage::kStarted);
}

}  // namespace

TimePoint FlightWatch::after(TimePoint now) const {
  Duration limit = warning_ > Duration(0) ? warning_ : error_;
  if (error_ > Duration(0)) limit = std::min(limit, error_);
  if (limit == Duration(0)) return kForever;
  return now + std::clamp(limit / 4, kShortestPause, kLongestPause);
}

/// When the operation began to be late, on the steady clock; 0 where it cannot be.
std::int64_t FlightWatch::late_since(const Flight& flight, TimePoint now) const {
  if (may_wait(flight)) return 0;
  const std::int64_t start = flight.at(FlightStage::kStarted);
  if (start != 0 || flight.call != 0)
    return start != 0 ? start : flight.at(FlightStage::kSubmitted);
  const bool waits_for_turn = flight.at(FlightStage::kAgreed) != 0;
  if (waits_for_turn || now - warned_ < 2 * warning_) return 0;
  // The stall watch of the negotiation comes first.
  return flight.at(FlightStage::kSubmitted) + to_ns(std::max(warning_ / 2, error_ / 4));
}

bool FlightWatch::is_due(const LateFlight& late, TimePoint now) const {
  const auto told = told_.find(late.flight.number);
  if (late.over_limit && (told == told_.end() || !told->second.over_limit)) return true;
  if (warning_ == Duration(0) || late.late_ns < to_ns(warning_)) return false;
  return told == told_.end() || to_ns(now) - told->second.at_ns >= to_ns(warning_);
}

std::vector<LateFlight> FlightWatch::late(const FlightRing& ring, TimePoint now) const {
  std::vector<LateFlight> all;
  for (Flight& flight : ring.pending()) {
    const std::int64_t since = late_since(flight, now);
    if (since == 0) continue;
    if (!all.empty() && move_as_one(all.back().flight, flight)) {
      ++all.back().others;
      continue;
    }
    const std::int64_t late_ns = to_ns(now) - since;
    const bool over_limit = error_ > Duration(0) && late_ns >= to_ns(error_);
    all.push_back({.flight = std::move(flight), .late_ns = late_ns, .over_limit = over_limit});
  }
  return all;
}

std::vector<LateFlight> FlightWatch::look(const FlightRing& ring, TimePoint now) {
  next_look_ = after(now);
  std::vector<LateFlight> due;
  std::unordered_map<std::uint64_t, Told> told;
  for (LateFlight& flight : late(ring, now)) {
    const std::uint64_t number = flight.flight.number;
    if (is_due(flight, now)) {
      told[number] = {.at_ns = to_ns(now), .over_limit = flight.over_limit};
      due.push_back(std::move(flight));
    } else if (const auto known = told_.find(number); known != told_.end()) {
      told.insert(*known);
    }
  }
  told_ = std::move(told);
  return due;
}

}  // namespace ronde
