// Operations that are overdue, from the first report to the verdict.
//
// A rank reports its overdue operations along the tree. The root asks all ranks about them, one
// query at a time. Each rank joins its own facts with the answers of its children. The root first
// looks for deadlocks in the facts, and then judges the time that the other operations have waited.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/protocol/batcher.h"
#include "core/protocol/deadlock_detector.h"
#include "core/protocol/frames.h"
#include "core/protocol/matching.h"
#include "core/protocol/stall_watch.h"
#include "core/protocol/tree.h"
#include "core/protocol/tree_frames.h"

namespace ronde {

/// The parts of a negotiation that an inquiry needs. All outlive it.
struct InquiryParts {
  const TreePlace& place;
  NegotiationState& state;
  const Matching& matching;
  StallWatch& stalls;
  Batcher& batcher;
  TreeFrames& frames;
};

/// One rank's part in it. Threads: one at a time.
class OverdueInquiry {
 public:
  /// `rank`: of the job. `cycle_watch`: as NegotiatorOptions has it.
  OverdueInquiry(int rank, Duration cycle_watch, const InquiryParts& parts)
      : parts_(parts), deadlocks_(rank, cycle_watch, parts.state.own) {}

  // Events of this rank.

  /// This rank submitted an operation.
  void submitted(const Request& request, TimePoint now) {
    parts_.stalls.submitted(now, parts_.state.own.size() == 1);
    deadlocks_.submitted(request, now);
  }
  /// As Negotiator::declare_blocked.
  void declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                       TimePoint now);
  /// As Negotiator::on_time and Negotiator::next_deadline.
  void on_time(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const {
    if (parts_.state.own.size() == 0) return kForever;
    return std::min(parts_.stalls.next_deadline(), deadlocks_.next_deadline());
  }

  // Frames of others. Errors: kInvalidArgument where they are out of protocol.

  /// Checks what the tick of child number `source`, from 1, says about overdue operations.
  [[nodiscard]] Status check(const TickFrame& tick, int source) const;
  /// Takes the reports of a tick that was checked.
  void take_reports(const TickFrame& tick, TimePoint now);
  /// Takes the answer of a tick that was checked, if it has one.
  void take_answer(const TickFrame& tick, int source, TimePoint now);
  /// Checks a query of the parent.
  [[nodiscard]] Status check(const QueryFrame& query) const;
  /// Answers it, once the children have.
  void answer(const QueryFrame& query, TimePoint now);
  /// Takes warnings of the root.
  void take_warnings(const WarningFrame& warning);

  /// Appends the warnings since the last call, for people.
  void take(std::vector<std::string>& out);

 private:
  void note(const Overdue& overdue, TimePoint now);
  void start_query(TimePoint now);
  void after_answer(TimePoint now);
  void judge(std::vector<StallFact> facts, TimePoint now);

  const InquiryParts parts_;
  DeadlockDetector deadlocks_;
  std::vector<std::string> warnings_;
};

}  // namespace ronde
