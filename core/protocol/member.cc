#include "core/protocol/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/protocol/request.h"
#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

std::string at_site(const std::string& site) {
  return site.empty() ? std::string() : fmt::format(" ({})", site);
}

}  // namespace

Status Member::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                      InlinePayload payload, Announcement& told) {
  if (join_ticket_ != 0) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: submitted after join, before all ranks have joined", described(request)));
  }
  const int slot = request.name.empty() ? -1 : cache_.find(request.name);
  if (slot < 0 || own_.find(slot) != nullptr || own_.has_keyed() || !owed_.empty() ||
      !stands_for(*cache_.at(slot), request)) {
    return submit_otherwise(request, ticket, now, std::move(payload), told);
  }
  own_.add(slot, ticket, request, now);
  tell_known(request, slot, std::move(payload), told);
  return {};
}

void Member::tell_known(const Request& request, int slot, InlinePayload payload,
                        Announcement& told) const {
  if (request.weight || payload.whole) {
    told.report = report_of(request, {request.name, 0}, slot, std::move(payload));
  } else {
    told.slot = slot;
  }
}

Status Member::submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                                InlinePayload payload, Announcement& told) {
  const OpKey key{request.name, request.name.empty() ? ++unnamed_ : 0};
  if (const OwnOperation* in_flight = this->in_flight(key)) {
    return refuse_duplicate(*in_flight, request, key, told);
  }
  if (const auto owed = owed_.find(key); owed != owed_.end()) {
    const Status status = owed->second;
    owed_.erase(owed);
    return status;
  }
  const int slot = key.name.empty() ? cache_.find_unnamed(request) : cache_.find(key.name);
  const bool is_known = slot >= 0 && stands_for(*cache_.at(slot), request);
  const bool by_slot = is_known && !key.name.empty();
  if (by_slot) {
    own_.add(slot, ticket, request, now);
    tell_known(request, slot, std::move(payload), told);
  } else {
    own_.add(key, ticket, request, now);
    told.report = report_of(request, key, is_known ? slot : -1, std::move(payload));
  }
  return {};
}

Status Member::refuse_duplicate(const OwnOperation& in_flight, const Request& again,
                                const OpKey& key, Announcement& told) const {
  const std::string message =
      fmt::format("{}: rank {} submitted it{} and again{} while it was in flight",
                  label(in_flight.request.kind, key), rank_, at_site(in_flight.request.call_site),
                  at_site(again.call_site));
  told.duplicate = {key, message};
  return Status(Code::kDuplicateName, message);
}

Report Member::report_of(const Request& request, const OpKey& key, int slot,
                         InlinePayload payload) const {
  Report report;
  report.payload = std::move(payload);
  report.ordinal = key.ordinal;
  report.slot = slot;
  report.rank = rank_;
  report.request = slot >= 0 ? cache_.at(slot) : std::make_shared<const Request>(request);
  if (traits_of(request.kind).rooted() && !is_member(request.root)) {
    report.code = Code::kInvalidArgument;
    report.message =
        fmt::format("{}: rank {} submitted root {}{}, which is not in the process set",
                    label(request.kind, key), rank_, request.root, at_site(request.call_site));
  }
  if (request.weight) add_weight(request, key, report);
  return report;
}

void Member::add_weight(const Request& request, const OpKey& key, Report& report) const {
  report.weight = *request.weight;
  if (std::isfinite(report.weight) && report.weight >= 0.0) return;
  report.code = Code::kInvalidArgument;
  report.message =
      fmt::format("{}: rank {} submitted weight {}{}; allowed: finite, 0 or more",
                  label(request.kind, key), rank_, report.weight, at_site(request.call_site));
}

Status Member::join(std::uint64_t ticket) {
  if (join_ticket_ != 0) {
    return Status(Code::kInvalidArgument, "join called again before all ranks have joined");
  }
  join_ticket_ = ticket;
  return {};
}

bool Member::take(const OpKey& key, Agreed& into) {
  if (!key.name.empty() && own_.take(cache_.find(key.name), into)) return true;
  return own_.take(key, into);
}

bool Member::take_slot(int slot, Agreed& into) {
  return own_.take(slot, into) || (own_.has_keyed() && own_.take({cache_.at(slot)->name, 0}, into));
}

void Member::owe(const OpKey& key, const Status& status) {
  if (join_ticket_ == 0) owed_[key] = status;
}

std::uint64_t Member::end_join() {
  unnamed_ = 0;
  owed_.clear();
  return std::exchange(join_ticket_, 0);
}

std::vector<Agreed> Member::take_all() {
  std::vector<OpKey> keys;
  own_.for_each([&](const OpKey& key, OwnOperation&) { keys.push_back(key); });
  std::vector<Agreed> taken;
  for (const OpKey& key : keys) {
    Agreed operation;
    if (take(key, operation)) taken.push_back(std::move(operation));
  }
  if (join_ticket_ == 0) return taken;
  Agreed& join = taken.emplace_back();
  join.ticket = std::exchange(join_ticket_, 0);
  join.request.kind = Collective::kJoin;
  return taken;
}

const OwnOperation* Member::in_flight(const OpKey& key) const {
  if (!key.name.empty()) {
    if (const OwnOperation* found = own_.find(cache_.find(key.name))) return found;
  }
  return own_.find(key);
}

bool Member::takes_part(const OpKey& key) const {
  return join_ticket_ != 0 || in_flight(key) != nullptr;
}

bool Member::is_member(int rank) const {
  return std::binary_search(members_.begin(), members_.end(), rank);
}

std::vector<StallFact> Member::facts(const std::vector<OpKey>& keys, TimePoint now) const {
  std::vector<StallFact> all;
  all.reserve(keys.size());
  for (const OpKey& key : keys) {
    StallFact& fact = all.emplace_back();
    fact.key = key;
    if (const OwnOperation* own = in_flight(key)) {
      fact.kind = static_cast<int>(own->request.kind);
      fact.waited_ms = to_ms(now - own->submitted);
    } else if (join_ticket_ == 0) {
      fact.missing = {rank_};
    }
  }
  return all;
}

std::string Member::describe_not_awaited() const {
  std::string text;
  std::uint64_t oldest = 0;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (oldest != 0 && oldest < operation.ticket) return;
    oldest = operation.ticket;
    text = fmt::format("it has not waited for {}", label(operation.request.kind, key));
  });
  return text;
}

}  // namespace ronde
