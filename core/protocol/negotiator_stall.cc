// Operations that wait for too long. Each rank watches its own; when one is overdue it tells the
// root, which asks all ranks whether they have submitted it, then warns everywhere or gives up.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/protocol/negotiator_impl.h"

namespace ronde {
namespace {

/// Whether `waited` has reached a limit that is switched on.
bool reached(std::uint64_t waited_ms, Duration limit) {
  return limit > Duration::zero() && waited_ms >= to_ms(limit);
}

}  // namespace

void Negotiator::Impl::watch_from(const Request& request, TimePoint submitted) {
  if (request.blocks != BlocksUntilDone::kNothing && options_.cycle_watch > Duration::zero()) {
    deadline_ = std::min(deadline_, submitted + options_.cycle_watch);
  }
  if (deadline_ != kForever) return;
  if (options_.stall_warning > Duration::zero()) deadline_ = submitted + options_.stall_warning;
  if (options_.stall_error > Duration::zero()) {
    deadline_ = std::min(deadline_, submitted + options_.stall_error);
  }
}

TimePoint Negotiator::Impl::due(const OwnOperation& operation) const {
  TimePoint due = kForever;
  if (options_.stall_warning > Duration::zero()) due = operation.noted + options_.stall_warning;
  if (options_.stall_error > Duration::zero() && !operation.given_up) {
    due = std::min(due, operation.submitted + options_.stall_error);
  }
  if (asks_at(operation, kForever)) {
    due = std::min(due, operation.submitted + options_.cycle_watch);
  }
  return due;
}

void Negotiator::Impl::on_time(TimePoint now) {
  if (now < deadline_) return;
  deadline_ = kForever;
  ask_whether_held(now);
  std::vector<Overdue> late;
  own_.for_each([&](const OpKey& key, OwnOperation& operation) {
    if (due(operation) <= now) {
      const bool fatal = options_.stall_error > Duration::zero() &&
                         operation.submitted + options_.stall_error <= now;
      operation.noted = now;
      operation.given_up = fatal;
      late.push_back({key, fatal, false});
    }
    deadline_ = std::min(deadline_, due(operation));
  });
  for (const Overdue& overdue : late) note_overdue(overdue, now);
}

void Negotiator::Impl::note_overdue(const Overdue& overdue, TimePoint now) {
  if (!is_root()) {
    draft_.overdue.push_back(overdue);
    has_draft_ = true;
    return;
  }
  if (overdue.asks) {
    look_at(overdue.key);
    return start_query(now);
  }
  const auto noted = last_noted_.find(overdue.key);
  const bool is_known = noted != last_noted_.end() &&
                        now - noted->second < std::max(options_.stall_warning, Duration(1)) / 2;
  if (is_known && !overdue.fatal) return;
  last_noted_[overdue.key] = now;
  look_at(overdue.key);
  start_query(now);
}

void Negotiator::Impl::start_query(TimePoint now) {
  if (query_.active() || overdue_.empty()) return;
  QueryFrame frame;
  frame.query = ++last_query_;
  const std::size_t count = std::min(overdue_.size(), kKeysPerQuery);
  const auto end = overdue_.begin() + static_cast<std::ptrdiff_t>(count);
  frame.keys.assign(overdue_.begin(), end);
  overdue_.erase(overdue_.begin(), end);
  asked_ = frame.keys;
  writer_.write(frame, [&](std::span<const std::byte> bytes) { forward(bytes); });
  answer_query(frame, now);
}

void Negotiator::Impl::answer_query(const QueryFrame& query, TimePoint now) {
  std::vector<StallFact> facts;
  facts.reserve(query.keys.size());
  for (const OpKey& key : query.keys) facts.push_back(own_fact(key, query.keys, now));
  query_.begin(query.query, std::move(facts), place_.children.size());
  after_answer(now);
}

StallFact Negotiator::Impl::own_fact(const OpKey& key, const std::vector<OpKey>& asked,
                                     TimePoint now) {
  StallFact fact;
  fact.key = key;
  if (const OwnOperation* own = own_in_flight(key)) {
    fact.kind = static_cast<int>(own->request.kind);
    fact.waited_ms = to_ms(now - own->submitted);
  } else if (join_ticket_ == 0) {
    fact.missing = {options_.rank};
    fact.blocked = blocked_here(key, asked);
  }
  return fact;
}

void Negotiator::Impl::after_answer(TimePoint now) {
  if (!query_.complete()) return;
  const std::uint64_t id = query_.id();
  std::vector<StallFact> facts = query_.finish();
  if (is_root()) {
    judge(std::move(facts), now);
    start_query(now);
    return;
  }
  draft_.query = id;
  draft_.facts = std::move(facts);
  has_draft_ = true;
}

void Negotiator::Impl::judge(std::vector<StallFact> facts, TimePoint now) {
  std::erase_if(facts, [&](const StallFact& fact) {  // its last reports came before the answers
    return fact.kind < 0 || fact.missing.empty() || aggregator_.is_complete(fact.key);
  });
  agree();
  WarningFrame warning;
  if (look_further(facts)) facts.clear();  // they are judged when all is known
  break_cycles(facts, now);
  for (const StallFact& fact : facts) {
    if (reached(fact.waited_ms, options_.stall_error)) {
      const std::string text = stall_text(fact) + "; given up";
      fail_early(fact.key, static_cast<Collective>(fact.kind), Code::kStalled, text);
      // Said by those too that have not submitted it, and so get no error.
      if (options_.stall_warning > Duration::zero()) warning.texts.push_back(text);
    } else if (reached(fact.waited_ms, options_.stall_warning)) {
      warning.texts.push_back(stall_text(fact));
    }
  }
  close_batch();
  if (warning.texts.empty()) return;
  writer_.write(warning, [&](std::span<const std::byte> bytes) { forward(bytes); });
  warn(warning);
}

void Negotiator::Impl::settle(const OpKey& key) {
  last_noted_.erase(key);
  std::erase(overdue_, key);
  query_.drop(key);
}

void Negotiator::Impl::warn(const WarningFrame& warning) {
  warnings_.insert(warnings_.end(), warning.texts.begin(), warning.texts.end());
}

}  // namespace ronde
