// Ranks that wait for each other. A rank whose operation holds others back (see Holds) for a while
// has the root ask about it, as about one that is overdue. Every rank answers with what keeps it
// from submitting that, which proves the cycle: the owner submits nothing before its operation has
// ended, the other rank not this one before its own has, and the owner has not submitted that, as
// it has nothing else in flight. Answers come in the order of batches, so both hold together.
#include <algorithm>
#include <utility>

#include "core/protocol/negotiator_impl.h"

namespace ronde {
namespace {

constexpr std::size_t kMaxSiteBytes = 160;  // the end of it, where the line is

std::string end_of(const std::string& site) {
  return site.size() <= kMaxSiteBytes ? site : site.substr(site.size() - kMaxSiteBytes);
}

Holds holds_now(const Request& request) {
  const bool waits = request.waits == nullptr || request.waits->load(std::memory_order_acquire);
  return waits ? request.holds : Holds::kNothing;
}

bool holds_back(const Request& request, const OpKey& key) {
  const Holds holds = holds_now(request);
  return holds == Holds::kEverything || (holds == Holds::kUnnamed && key.name.empty());
}

}  // namespace

bool Negotiator::Impl::asks_at(const OwnOperation& operation, TimePoint now) const {
  return operation.request.holds != Holds::kNothing && !operation.asked &&
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

Holder Negotiator::Impl::as_holder(const OpKey& key, const OwnOperation& operation) const {
  const Request& request = operation.request;
  return {options_.rank, key, request.kind, end_of(request.call_site),
          holds_now(request) == Holds::kEverything && own_.size() == 1};
}

Holder Negotiator::Impl::holder_of(const OpKey& lacking) {
  Holder holder;
  std::uint64_t ticket = 0;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (!holds_back(operation.request, lacking)) return;
    if (ticket != 0 && ticket < operation.ticket) return;
    holder = as_holder(key, operation);
    ticket = operation.ticket;
  });
  return holder;
}

void Negotiator::Impl::look_at(const OpKey& key) {
  if (std::find(overdue_.begin(), overdue_.end(), key) == overdue_.end()) overdue_.push_back(key);
}

std::vector<OpKey> Negotiator::Impl::break_cycles(const std::vector<StallFact>& facts) {
  std::vector<OpKey> broken;
  const auto fail = [&](const OpKey& key, Collective kind, const std::string& text) {
    if (std::find(broken.begin(), broken.end(), key) != broken.end()) return;
    broken.push_back(key);
    fail_early(key, kind, Code::kMismatch, text);
  };
  for (const StallFact& fact : facts) {
    if (is_cycle(fact)) {
      const std::string text = cycle_text(fact);
      fail(fact.key, static_cast<Collective>(fact.kind), text);
      fail(fact.holder.key, fact.holder.kind, text);
    } else if (fact.holder.alone) {
      look_at(fact.holder.key);  // seen from there it may be one
    }
  }
  return broken;
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
