// Ranks that wait for each other. A rank whose operation holds others back (see BlocksUntilDone),
// or that stands still, has the root ask about it after a while, as about one that is overdue.
// Every rank answers with what keeps it from submitting that, and what else it stands still in; the
// root then asks about this too, until one query has shown all of it, so that all of a cycle fails
// together and nobody goes on while another rank still waits. Its answers hold together: what a
// rank has not submitted by its answer it does not submit before the operation it named has ended,
// so none of a cycle ends. A rank that began to stand still only after that closes another cycle,
// with what the others have gone on to: then its operation fails alone, and theirs is done once it
// goes on too.
#include <algorithm>
#include <utility>

#include "core/protocol/negotiator_impl.h"

namespace ronde {
namespace {

constexpr int kMostFurther = 8;         // queries in a row: of ranks in a ring, each knows the next
constexpr std::size_t kMostOthers = 8;  // in each answer
constexpr std::size_t kMaxSiteBytes = 160;  // the end of it, where the line is

std::string end_of(const std::string& site) {
  return site.size() <= kMaxSiteBytes ? site : site.substr(site.size() - kMaxSiteBytes);
}

BlocksUntilDone blocks_now(const Request& request) {
  const bool waits = request.waits == nullptr || request.waits->load(std::memory_order_acquire);
  return waits ? request.blocks : BlocksUntilDone::kNothing;
}

/// `only`: nothing else of the rank is in flight, whose end might bring more.
bool holds_back(const OwnOperation& operation, const OpKey& key, bool only) {
  if (operation.blocked != nullptr) {
    return operation.blocked->load(std::memory_order_acquire);
  }
  const BlocksUntilDone blocks = blocks_now(operation.request);
  return (blocks == BlocksUntilDone::kEverything && only) ||
         (blocks == BlocksUntilDone::kUnnamed && key.name.empty());
}

}  // namespace

bool Negotiator::Impl::asks_at(const OwnOperation& operation, TimePoint now) const {
  return operation.request.blocks != BlocksUntilDone::kNothing && !operation.asked &&
         options_.cycle_watch > Duration::zero() &&
         operation.submitted + options_.cycle_watch <= now;
}

void Negotiator::Impl::ask_whether_held(TimePoint now) {
  OpKey oldest;
  std::uint64_t ticket = 0;
  own_.for_each([&](const OpKey& key, OwnOperation& operation) {
    if (!asks_at(operation, now)) return;
    operation.asked = true;
    if (ticket != 0 && ticket < operation.ticket) return;
    oldest = key;
    ticket = operation.ticket;
  });
  if (ticket != 0) note_overdue({oldest, false, true}, now);
}

void Negotiator::Impl::declare_blocked(std::span<const std::uint64_t> tickets,
                                       const BlockedFlag& blocked, TimePoint now) {
  std::vector<OpKey> waiting;
  own_.for_each([&](const OpKey& key, OwnOperation& operation) {
    if (std::find(tickets.begin(), tickets.end(), operation.ticket) == tickets.end()) return;
    operation.blocked = blocked;
    if (waiting.size() < kKeysPerQuery) waiting.push_back(key);
  });
  for (const OpKey& key : waiting) note_overdue({key, false, true}, now);
}

BlockedRank Negotiator::Impl::blocked_here(const OpKey& lacking, const std::vector<OpKey>& asked) {
  BlockedRank blocked;
  std::uint64_t ticket = 0;
  std::vector<OpKey> others;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (!holds_back(operation, lacking, own_.size() == 1)) return;
    const bool is_asked = std::find(asked.begin(), asked.end(), key) != asked.end();
    if (!is_asked && others.size() < kMostOthers) others.push_back(key);
    if (ticket != 0 && ticket < operation.ticket) return;
    const Request& request = operation.request;
    blocked = {options_.rank, key, request.kind, end_of(request.call_site), {}};
    ticket = operation.ticket;
  });
  blocked.others = std::move(others);
  return blocked;
}

void Negotiator::Impl::look_at(const OpKey& key) {
  if (std::find(overdue_.begin(), overdue_.end(), key) == overdue_.end()) overdue_.push_back(key);
}

void Negotiator::Impl::break_cycles(std::vector<StallFact>& facts, TimePoint now) {
  std::vector<OpKey> broken;
  const std::vector<const StallFact*> waiting = endless(facts);
  if (waiting.empty()) return;
  const std::uint64_t since = to_ms(now - std::exchange(broken_, now));
  const auto is_old = [&](const StallFact* fact) { return fact->waited_ms > since; };
  const bool any_old = std::any_of(waiting.begin(), waiting.end(), is_old);
  for (const StallFact* fact : waiting) {
    if (any_old && !is_old(fact)) continue;
    broken.push_back(fact->key);
    fail_early(fact->key, static_cast<Collective>(fact->kind), Code::kMismatch,
               cycle_text(*fact, waiting));
  }
  std::erase_if(facts, [&](const StallFact& fact) {
    return std::find(broken.begin(), broken.end(), fact.key) != broken.end();
  });
}

bool Negotiator::Impl::look_further(const std::vector<StallFact>& facts) {
  std::vector<OpKey> found;
  bool any_new = false;
  const auto add = [&](const OpKey& key) {
    any_new = any_new || std::find(asked_.begin(), asked_.end(), key) == asked_.end();
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
  for (const OpKey& key : found) look_at(key);
  return true;
}

void Negotiator::Impl::fail_early(const OpKey& key, Collective kind, Code code,
                                  const std::string& text) {
  BatchItem item;
  item.name = key.name;
  item.ordinal = key.ordinal;
  item.kind = kind;
  item.code = code;
  item.message = text;
  item.early = true;
  append(std::move(item));
}

}  // namespace ronde
