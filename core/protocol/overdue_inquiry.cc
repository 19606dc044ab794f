#include "core/protocol/overdue_inquiry.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace ronde {

void OverdueInquiry::declare_blocked(std::span<const std::uint64_t> tickets,
                                     const BlockedFlag& blocked, TimePoint now) {
  for (const Overdue& overdue : deadlocks_.declare_blocked(tickets, blocked)) note(overdue, now);
}

void OverdueInquiry::on_time(TimePoint now) {
  for (const Overdue& overdue : deadlocks_.on_time(now)) note(overdue, now);
  for (const Overdue& overdue : parts_.stalls.on_time(now)) note(overdue, now);
}

Status OverdueInquiry::check(const TickFrame& tick, int source) const {
  const StallQuery& query = parts_.stalls.query();
  if (tick.query != 0 && !query.expects(static_cast<std::size_t>(source) - 1, tick.query)) {
    return out_of_protocol("an answer without a query");
  }
  for (const StallFact& fact : tick.facts) {
    if (fact.blocked.rank >= 0 && !parts_.matching.is_member(fact.blocked.rank)) {
      return out_of_protocol("an operation of a rank outside the set");
    }
  }
  return {};
}

Status OverdueInquiry::check(const QueryFrame& query) const {
  if (!parts_.stalls.query().active() && query.query != 0) return {};
  return out_of_protocol("a second query");
}

void OverdueInquiry::take_reports(const TickFrame& tick, TimePoint now) {
  for (const Overdue& overdue : tick.overdue) note(overdue, now);
}

void OverdueInquiry::take_answer(const TickFrame& tick, int source, TimePoint now) {
  if (tick.query == 0) return;
  parts_.stalls.query().answer(static_cast<std::size_t>(source) - 1, tick.facts);
  after_answer(now);
}

void OverdueInquiry::take_warnings(const WarningFrame& warning) {
  warnings_.insert(warnings_.end(), warning.texts.begin(), warning.texts.end());
}

void OverdueInquiry::take(std::vector<std::string>& out) {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(out));
  warnings_.clear();
}

void OverdueInquiry::note(const Overdue& overdue, TimePoint now) {
  if (!parts_.place.is_root()) {
    parts_.state.draft.open().overdue.push_back(overdue);
    return;
  }
  parts_.stalls.note(overdue, now);
  start_query(now);
}

void OverdueInquiry::start_query(TimePoint now) {
  const std::optional<QueryFrame> query = parts_.stalls.next_query();
  if (!query) return;
  deadlocks_.query_began(query->keys);
  parts_.frames.send_down(*query);
  answer(*query, now);
}

void OverdueInquiry::answer(const QueryFrame& query, TimePoint now) {
  std::vector<StallFact> facts = parts_.matching.own_facts(query.keys, now);
  deadlocks_.complete_facts(facts, query.keys);
  parts_.stalls.query().begin(query.query, std::move(facts), parts_.place.children.size());
  after_answer(now);
}

void OverdueInquiry::after_answer(TimePoint now) {
  StallQuery& query = parts_.stalls.query();
  if (!query.complete()) return;
  const std::uint64_t id = query.id();
  std::vector<StallFact> facts = query.finish();
  if (parts_.place.is_root()) {
    judge(std::move(facts), now);
    start_query(now);
    return;
  }
  TickFrame& tick = parts_.state.draft.open();
  tick.query = id;
  tick.facts = std::move(facts);
}

void OverdueInquiry::judge(std::vector<StallFact> facts, TimePoint now) {
  std::erase_if(facts, [&](const StallFact& fact) {  // its last reports came before the answers
    return fact.kind < 0 || fact.missing.empty() || parts_.state.aggregator.is_complete(fact.key);
  });
  for (StallFact& fact : facts) fact.last_use = parts_.state.aggregator.last_use(fact.key);
  Batcher& batcher = parts_.batcher;
  batcher.agree();
  DeadlockDetector::Finding found = deadlocks_.examine(facts, now);
  for (const OpKey& key : found.ask) parts_.stalls.ask_about(key);
  if (!found.ask.empty()) facts.clear();  // judged when all is known
  for (BatchItem& failure : found.failures) batcher.fail(std::move(failure));
  StallVerdict verdict = parts_.stalls.judge(facts);
  for (BatchItem& failure : verdict.failures) batcher.fail(std::move(failure));
  batcher.close_batch();
  if (verdict.warnings.empty()) return;
  const WarningFrame warning{std::move(verdict.warnings)};
  parts_.frames.send_down(warning);
  take_warnings(warning);
}

}  // namespace ronde
