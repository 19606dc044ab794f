#include "core/protocol/operation_watch.h"

#include <algorithm>

#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

constexpr std::size_t kKeysPerQuery = 32;  // far below a frame's limit
constexpr int kMostFurther = 8;         // queries in a row: of ranks in a ring, each knows the next
constexpr std::size_t kMostOthers = 8;  // in each answer
constexpr std::size_t kMaxSiteBytes = 160;  // the last ones, with the line number

std::string end_of(const std::string& site) {
  return site.size() <= kMaxSiteBytes ? site : site.substr(site.size() - kMaxSiteBytes);
}

bool contains(const std::vector<OpKey>& keys, const OpKey& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

BlocksUntilDone blocks_now(const Request& request) {
  const bool waits = request.waits == nullptr || request.waits->load(std::memory_order_acquire);
  return waits ? request.blocks : BlocksUntilDone::kNothing;
}

/// True if the blocking request keeps its rank from submitting `name`.
bool blocks_name(const Request& request, const std::string& name) {
  return name.empty() || (request.may_submit != nullptr && request.may_submit(name.c_str()) == 0);
}

}  // namespace

// This rank.

void OperationWatch::submitted(const Request& request, TimePoint now) {
  if (late_deadline_ == kForever || own_.size() == 1) late_deadline_ = Lateness{now}.due(limits_);
  if (request.blocks == BlocksUntilDone::kNothing || cycle_ <= Duration::zero()) return;
  cycle_deadline_ = std::min(cycle_deadline_, now + cycle_);
}

std::vector<Overdue> OperationWatch::on_time(TimePoint now) {
  std::vector<Overdue> found;
  if (now >= cycle_deadline_) add_blocking(now, found);
  if (now >= late_deadline_) add_late(now, found);
  return found;
}

void OperationWatch::add_late(TimePoint now, std::vector<Overdue>& found) {
  late_deadline_ = kForever;
  own_.for_each([&](const OpKey& key, OwnOperation& operation) {
    Lateness& lateness = operation.lateness;
    if (lateness.due(limits_) <= now) found.push_back({key, lateness.report(limits_, now), false});
    late_deadline_ = std::min(late_deadline_, lateness.due(limits_));
  });
}

/// Adds the oldest operation that has blocked this rank for the limit, and was not checked yet.
void OperationWatch::add_blocking(TimePoint now, std::vector<Overdue>& found) {
  cycle_deadline_ = kForever;
  std::optional<OpKey> oldest;
  std::uint64_t ticket = 0;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (operation.request.blocks == BlocksUntilDone::kNothing) return;
    const TimePoint submitted = operation.lateness.since;
    if (submitted <= checked_) return;
    const TimePoint due = submitted + cycle_;
    if (due > now) {
      cycle_deadline_ = std::min(cycle_deadline_, due);
    } else if (ticket == 0 || operation.ticket <= ticket) {
      oldest = key;
      ticket = operation.ticket;
    }
  });
  checked_ = now - cycle_;
  if (oldest) found.push_back({*oldest, false, true});
}

std::vector<Overdue> OperationWatch::declare_blocked(std::span<const std::uint64_t> tickets,
                                                     const BlockedFlag& blocked) {
  std::vector<Overdue> waiting;
  std::unordered_map<std::uint64_t, BlockedFlag> declared;  // of what is still in flight
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (const auto before = declared_.find(operation.ticket); before != declared_.end()) {
      declared.insert(*before);
    }
    if (std::find(tickets.begin(), tickets.end(), operation.ticket) == tickets.end()) return;
    declared[operation.ticket] = blocked;
    if (waiting.size() < kKeysPerQuery) waiting.push_back({key, false, true});
  });
  declared_ = std::move(declared);
  return waiting;
}

bool OperationWatch::blocks(const OwnOperation& operation, const OpKey& key) const {
  const auto declared = declared_.find(operation.ticket);
  if (declared != declared_.end() && declared->second != nullptr) {
    return declared->second->load(std::memory_order_acquire);
  }
  const BlocksUntilDone blocks = blocks_now(operation.request);
  const bool only = own_.size() == 1;  // else the rank may go on after another one has ended
  return (blocks == BlocksUntilDone::kEverything && only) ||
         (blocks == BlocksUntilDone::kUnnamed && blocks_name(operation.request, key.name));
}

// The query.

void OperationWatch::begin(const QueryFrame& query, std::vector<StallFact> own,
                           std::size_t children) {
  for (StallFact& fact : own) {
    if (!fact.missing.empty()) fact.blocked = blocked_here(fact.key, query.keys);
  }
  query_ = query.query;
  facts_ = std::move(own);
  has_answered_.assign(children, false);
  awaited_ = children;
}

BlockedRank OperationWatch::blocked_here(const OpKey& lacking,
                                         const std::vector<OpKey>& asked) const {
  BlockedRank blocked;
  std::uint64_t ticket = 0;
  std::vector<OpKey> others;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (!blocks(operation, lacking)) return;
    if (!contains(asked, key) && others.size() < kMostOthers) others.push_back(key);
    if (ticket != 0 && ticket < operation.ticket) return;
    const Request& request = operation.request;
    blocked = {rank_, key, request.kind, end_of(request.call_site), {}};
    ticket = operation.ticket;
  });
  blocked.others = std::move(others);
  return blocked;
}

bool OperationWatch::expects(std::size_t child, std::uint64_t query) const {
  return asks() && query == query_ && child < has_answered_.size() && !has_answered_[child];
}

void OperationWatch::answer(std::size_t child, const std::vector<StallFact>& facts) {
  has_answered_[child] = true;
  --awaited_;
  for (const StallFact& theirs : facts) {
    const auto mine = std::find_if(facts_.begin(), facts_.end(),
                                   [&](const StallFact& fact) { return fact.key == theirs.key; });
    if (mine == facts_.end()) continue;
    mine->missing.insert(mine->missing.end(), theirs.missing.begin(), theirs.missing.end());
    mine->waited_ms = std::max(mine->waited_ms, theirs.waited_ms);
    mine->kind = std::max(mine->kind, theirs.kind);
    if (mine->blocked.rank < 0) mine->blocked = theirs.blocked;
  }
}

std::pair<std::uint64_t, std::vector<StallFact>> OperationWatch::finish() {
  for (StallFact& fact : facts_) std::sort(fact.missing.begin(), fact.missing.end());
  return {std::exchange(query_, 0), std::exchange(facts_, {})};
}

// The root.

void OperationWatch::note(const Overdue& overdue, TimePoint now) {
  if (overdue.asks) return ask_about(overdue.key);
  const auto noted = last_noted_.find(overdue.key);
  const bool is_known = noted != last_noted_.end() &&
                        now - noted->second < std::max(limits_.warning, Duration(1)) / 2;
  if (is_known && !overdue.fatal) return;
  last_noted_[overdue.key] = now;
  ask_about(overdue.key);
}

void OperationWatch::ask_about(const OpKey& key) {
  if (!contains(ask_, key)) ask_.push_back(key);
}

std::optional<QueryFrame> OperationWatch::next_query() {
  if (asks() || ask_.empty()) return std::nullopt;
  const std::size_t count = std::min(ask_.size(), kKeysPerQuery);
  const auto end = ask_.begin() + static_cast<std::ptrdiff_t>(count);
  asked_.assign(ask_.begin(), end);
  ask_.erase(ask_.begin(), end);
  return QueryFrame{++last_query_, asked_};
}

OperationWatch::Verdict OperationWatch::judge(std::vector<StallFact> facts, TimePoint now) {
  Verdict verdict;
  if (ask_further(facts)) return verdict;  // judged when all is known
  verdict.failures = break_cycles(facts, now);
  for (const StallFact& fact : facts) judge_time(fact, verdict);
  return verdict;
}

void OperationWatch::judge_time(const StallFact& fact, Verdict& verdict) const {
  if (limits_.fails() && fact.waited_ms >= to_ms(limits_.error)) {
    const std::string text = stall_text(fact) + "; given up";
    verdict.failures.push_back(
        early_failure(fact.key, static_cast<Collective>(fact.kind), Code::kStalled, text));
    // Ranks that have not submitted it get no error, but they log the warning.
    if (limits_.warns()) verdict.warnings.push_back(text);
  } else if (limits_.warns() && fact.waited_ms >= to_ms(limits_.warning)) {
    verdict.warnings.push_back(stall_text(fact));
  }
}

/// Asks about the operations that block ranks too, unless all were in the last query. False then.
bool OperationWatch::ask_further(const std::vector<StallFact>& facts) {
  std::vector<OpKey> found;
  bool any_new = false;
  const auto add = [&](const OpKey& key) {
    any_new = any_new || !contains(asked_, key);
    found.push_back(key);
  };
  for (const StallFact& fact : facts) {
    found.push_back(fact.key);
    if (fact.blocked.rank < 0) continue;
    add(fact.blocked.key);
    for (const OpKey& other : fact.blocked.others) add(other);
  }
  if (further_ == kMostFurther || !any_new) {
    further_ = 0;
    return false;
  }
  ++further_;
  for (const OpKey& key : found) ask_about(key);
  return true;
}

/// Fails operations that never end, and removes their facts. If some have waited since before the
/// last cycle was broken, only those fail: their ranks can then submit what the others wait for.
std::vector<BatchItem> OperationWatch::break_cycles(std::vector<StallFact>& facts, TimePoint now) {
  std::vector<BatchItem> failures;
  std::vector<OpKey> broken;
  const std::vector<const StallFact*> waiting = endless(facts);
  if (waiting.empty()) return failures;
  const std::uint64_t since = to_ms(now - std::exchange(broken_, now));
  const auto is_old = [&](const StallFact* fact) { return fact->waited_ms > since; };
  const bool any_old = std::any_of(waiting.begin(), waiting.end(), is_old);
  for (const StallFact* fact : waiting) {
    if (any_old && !is_old(fact)) continue;
    broken.push_back(fact->key);
    failures.push_back(early_failure(fact->key, static_cast<Collective>(fact->kind),
                                     Code::kMismatch, cycle_text(*fact, waiting)));
  }
  std::erase_if(facts, [&](const StallFact& fact) { return contains(broken, fact.key); });
  return failures;
}

void OperationWatch::settled(const OpKey& key) {
  last_noted_.erase(key);
  std::erase(ask_, key);
  std::erase_if(facts_, [&](const StallFact& fact) { return fact.key == key; });
}

}  // namespace ronde
