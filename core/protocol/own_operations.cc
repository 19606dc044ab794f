#include "core/protocol/own_operations.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

std::string at_site(const std::string& site) {
  return site.empty() ? std::string() : fmt::format(" ({})", site);
}

}  // namespace

// Submissions.

Status OwnOperations::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                             InlinePayload payload, Announcement& told) {
  if (has_joined()) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: submitted after join, before all ranks have joined", described(request)));
  }
  const int slot = cache_.find(request.name);
  if (slot < 0 || find(slot) != nullptr || !by_key_.empty() || !owed_.empty() ||
      !stands_for(*cache_.at(slot), request)) {
    return submit_otherwise(request, ticket, now, std::move(payload), told);
  }
  add_known({ticket, request, {now}}, slot, std::move(payload), told);
  return {};
}

void OwnOperations::add_known(OwnOperation operation, int slot, InlinePayload payload,
                              Announcement& told) {
  const auto index = static_cast<std::size_t>(slot);
  if (by_slot_.size() <= index) by_slot_.resize(index + 1);
  const Request& request = by_slot_[index].emplace(std::move(operation)).request;
  ++size_;
  if (request.weight || payload.whole) {
    told.report = report_of(request, {request.name, 0}, slot, std::move(payload));
  } else {
    told.slot = slot;
  }
}

Status OwnOperations::submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                                       InlinePayload payload, Announcement& told) {
  const OpKey key{request.name, request.name.empty() ? ++unnamed_ : 0};
  if (const OwnOperation* in_flight = find(key)) {
    return refuse_duplicate(*in_flight, request, key, told);
  }
  if (const auto owed = owed_.find(key); owed != owed_.end()) {
    const Status status = owed->second;
    owed_.erase(owed);
    return status;
  }
  const int slot = cache_.find(request);
  const bool is_known = slot >= 0 && stands_for(*cache_.at(slot), request);
  if (is_known && !key.name.empty()) {
    add_known({ticket, request, {now}}, slot, std::move(payload), told);
  } else {
    by_key_.emplace(key, OwnOperation{ticket, request, {now}});
    ++size_;
    told.report = report_of(request, key, is_known ? slot : -1, std::move(payload));
  }
  return {};
}

Status OwnOperations::refuse_duplicate(const OwnOperation& in_flight, const Request& again,
                                       const OpKey& key, Announcement& told) const {
  const std::string message =
      fmt::format("{}: rank {} submitted it{} and again{} while it was in flight",
                  label(in_flight.request.kind, key), node_.rank,
                  at_site(in_flight.request.call_site), at_site(again.call_site));
  told.duplicate = {key, message};
  return Status(Code::kDuplicateName, message);
}

Report OwnOperations::report_of(const Request& request, const OpKey& key, int slot,
                                InlinePayload payload) const {
  Report report;
  report.payload = std::move(payload);
  report.ordinal = key.ordinal;
  report.slot = slot;
  report.rank = node_.rank;
  report.request = slot >= 0 ? cache_.at(slot) : std::make_shared<const Request>(request);
  if (traits_of(request.kind).rooted() && !node_.is_member(request.root)) {
    report.code = Code::kInvalidArgument;
    report.message =
        fmt::format("{}: rank {} submitted root {}{}, which is not in the process set",
                    label(request.kind, key), node_.rank, request.root, at_site(request.call_site));
  }
  if (request.weight) add_weight(request, key, report);
  return report;
}

void OwnOperations::add_weight(const Request& request, const OpKey& key, Report& report) const {
  report.weight = *request.weight;
  if (std::isfinite(report.weight) && report.weight >= 0.0) return;
  report.code = Code::kInvalidArgument;
  report.message =
      fmt::format("{}: rank {} submitted weight {}{}; allowed: finite, 0 or more",
                  label(request.kind, key), node_.rank, report.weight, at_site(request.call_site));
}

Status OwnOperations::join(std::uint64_t ticket) {
  if (has_joined()) {
    return Status(Code::kInvalidArgument, "join called again before all ranks have joined");
  }
  join_ticket_ = ticket;
  return {};
}

// Agreements.

bool OwnOperations::take(int slot, Agreed& into) {
  if (find(slot) == nullptr) {
    return !by_key_.empty() && take(OpKey{cache_.at(slot)->name, 0}, into);
  }
  std::optional<OwnOperation>& operation = by_slot_[static_cast<std::size_t>(slot)];
  into.ticket = operation->ticket;
  into.request = std::move(operation->request);
  operation.reset();
  --size_;
  return true;
}

bool OwnOperations::take(const OpKey& key, Agreed& into) {
  if (const int slot = cache_.find(key.name); find(slot) != nullptr) return take(slot, into);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  into.ticket = found->second.ticket;
  into.request = std::move(found->second.request);
  by_key_.erase(found);
  --size_;
  return true;
}

std::uint64_t OwnOperations::take_join() {
  unnamed_ = 0;
  owed_.clear();
  return std::exchange(join_ticket_, 0);
}

std::vector<Agreed> OwnOperations::take_all() {
  std::vector<Agreed> taken;
  for_each([&](const OpKey&, OwnOperation& operation) {
    Agreed& each = taken.emplace_back();
    each.ticket = operation.ticket;
    each.request = std::move(operation.request);
  });
  by_slot_.clear();
  by_key_.clear();
  size_ = 0;
  if (!has_joined()) return taken;
  Agreed& join = taken.emplace_back();
  join.ticket = std::exchange(join_ticket_, 0);
  join.request.kind = Collective::kJoin;
  return taken;
}

void OwnOperations::owe(const OpKey& key, const Status& status) {
  if (!has_joined()) owed_[key] = status;
}

void OwnOperations::leave_slot(int slot) {
  if (find(slot) == nullptr) return;
  std::optional<OwnOperation>& operation = by_slot_[static_cast<std::size_t>(slot)];
  OpKey key{operation->request.name, 0};
  by_key_.emplace(std::move(key), std::move(*operation));
  operation.reset();
}

// What is in flight.

const OwnOperation* OwnOperations::find(int slot) const noexcept {
  const auto index = static_cast<std::size_t>(slot);
  if (slot < 0 || index >= by_slot_.size() || !by_slot_[index]) return nullptr;
  return &*by_slot_[index];
}

const OwnOperation* OwnOperations::find(const OpKey& key) const {
  if (const OwnOperation* found = find(cache_.find(key.name))) return found;
  if (by_key_.empty()) return nullptr;
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second;
}

std::vector<StallFact> OwnOperations::facts(const std::vector<OpKey>& keys, TimePoint now) const {
  std::vector<StallFact> all;
  all.reserve(keys.size());
  for (const OpKey& key : keys) {
    StallFact& fact = all.emplace_back();
    fact.key = key;
    if (const OwnOperation* own = find(key)) {
      fact.kind = static_cast<int>(own->request.kind);
      fact.waited_ms = to_ms(now - own->lateness.since);
    } else if (!has_joined()) {
      fact.missing = {node_.rank};
    }
  }
  return all;
}

std::string OwnOperations::describe_not_awaited() const {
  std::string text;
  std::uint64_t oldest = 0;
  for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (oldest != 0 && oldest < operation.ticket) return;
    oldest = operation.ticket;
    text = fmt::format("it has not waited for {}", label(operation.request.kind, key));
  });
  return text;
}

}  // namespace ronde
