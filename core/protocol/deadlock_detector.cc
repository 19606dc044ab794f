#include "core/protocol/deadlock_detector.h"

#include <algorithm>
#include <utility>

#include "core/protocol/stall_query.h"

namespace ronde {
namespace {

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

/// Of a request that blocks what has no name.
bool blocks_name(const Request& request, const std::string& name) {
  return name.empty() || (request.may_submit != nullptr && request.may_submit(name.c_str()) == 0);
}

}  // namespace

bool DeadlockDetector::is_due(const OwnOperation& operation, TimePoint now) const {
  return operation.request.blocks != BlocksUntilDone::kNothing && operation.submitted > checked_ &&
         operation.submitted + watch_ <= now;
}

std::vector<Overdue> DeadlockDetector::on_time(TimePoint now) {
  if (now < deadline_) return {};
  deadline_ = kForever;
  std::vector<Overdue> oldest;
  std::uint64_t ticket = 0;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (operation.request.blocks == BlocksUntilDone::kNothing) return;
    if (!is_due(operation, now)) {
      if (operation.submitted > checked_) {
        deadline_ = std::min(deadline_, operation.submitted + watch_);
      }
      return;
    }
    if (ticket != 0 && ticket < operation.ticket) return;
    oldest = {{key, false, true}};
    ticket = operation.ticket;
  });
  checked_ = now - watch_;
  return oldest;
}

std::vector<Overdue> DeadlockDetector::declare_blocked(std::span<const std::uint64_t> tickets,
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

bool DeadlockDetector::blocks(const OwnOperation& operation, const OpKey& key) const {
  const auto declared = declared_.find(operation.ticket);
  if (declared != declared_.end() && declared->second != nullptr) {
    return declared->second->load(std::memory_order_acquire);
  }
  const BlocksUntilDone blocks = blocks_now(operation.request);
  const bool only = own_.size() == 1;  // else the end of another might bring more
  return (blocks == BlocksUntilDone::kEverything && only) ||
         (blocks == BlocksUntilDone::kUnnamed && blocks_name(operation.request, key.name));
}

void DeadlockDetector::complete_facts(std::vector<StallFact>& facts,
                                      const std::vector<OpKey>& asked) const {
  for (StallFact& fact : facts) {
    if (!fact.missing.empty()) fact.blocked = blocked_here(fact.key, asked);
  }
}

BlockedRank DeadlockDetector::blocked_here(const OpKey& lacking,
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

DeadlockDetector::Finding DeadlockDetector::examine(std::vector<StallFact>& facts, TimePoint now) {
  Finding finding;
  finding.ask = further(facts);
  if (finding.ask.empty()) finding.failures = break_cycles(facts, now);
  return finding;
}

std::vector<OpKey> DeadlockDetector::further(const std::vector<StallFact>& facts) {
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
  if (queries_ == kMostFurther || !any_new) {
    queries_ = 0;
    return {};
  }
  ++queries_;
  return found;
}

std::vector<BatchItem> DeadlockDetector::break_cycles(std::vector<StallFact>& facts,
                                                      TimePoint now) {
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

}  // namespace ronde
