#include "core/protocol/matching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/protocol/signature.h"
#include "core/protocol/stall_query.h"

namespace ronde {
namespace {

std::vector<int> source_ranks(int rank, const TreePlace& place) {
  std::vector<int> ranks = {rank};
  ranks.insert(ranks.end(), place.children.begin(), place.children.end());
  return ranks;
}

std::string at_site(const std::string& site) {
  return site.empty() ? std::string() : fmt::format(" ({})", site);
}

template <typename Visit>
void for_each_slot(const TickFrame& tick, const Visit& visit) {
  for (std::size_t i = 0; i < tick.words.size(); ++i) {
    for (std::uint64_t bits = tick.words[i]; bits != 0; bits &= bits - 1) {
      visit(static_cast<int>((tick.first_word + i) * 64) + std::countr_zero(bits));
    }
  }
}

}  // namespace

NegotiationState::NegotiationState(int rank, const TreePlace& place, std::size_t cache_capacity)
    : cache(cache_capacity), aggregator(source_ranks(rank, place), cache) {}

Status Matching::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                        InlinePayload payload) {
  if (join_ticket_ != 0) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: submitted after join, before all ranks have joined", described(request)));
  }
  const int slot = request.name.empty() ? -1 : cache_.find(request.name);
  if (slot < 0 || own_.find(slot) != nullptr || own_.has_keyed() || !owed_.empty() ||
      !stands_for(*cache_.at(slot), request)) {
    return submit_otherwise(request, ticket, now, std::move(payload));
  }
  own_.add(slot, ticket, request, now);
  report_known(request, slot, std::move(payload));
  report_completed();
  return {};
}

void Matching::report_known(const Request& request, int slot, InlinePayload payload) {
  if (request.weight || payload.whole) {
    report_own(request, {request.name, 0}, slot, std::move(payload));
  } else {
    aggregator_.add_bit(kSelf, slot);
  }
}

Status Matching::submit_otherwise(const Request& request, std::uint64_t ticket, TimePoint now,
                                  InlinePayload payload) {
  const OpKey key{request.name, request.name.empty() ? ++unnamed_ : 0};
  if (const OwnOperation* in_flight = own_in_flight(key)) {
    return refuse_duplicate(*in_flight, request, key);
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
    report_known(request, slot, std::move(payload));
  } else {
    own_.add(key, ticket, request, now);
    report_own(request, key, is_known ? slot : -1, std::move(payload));
  }
  report_completed();
  return {};
}

Status Matching::refuse_duplicate(const OwnOperation& in_flight, const Request& again,
                                  const OpKey& key) {
  const std::string message =
      fmt::format("{}: rank {} submitted it{} and again{} while it was in flight",
                  label(in_flight.request.kind, key), rank_, at_site(in_flight.request.call_site),
                  at_site(again.call_site));
  apply_notice(kSelf, {key, message});
  return Status(Code::kDuplicateName, message);
}

void Matching::report_own(const Request& request, const OpKey& key, int slot,
                          InlinePayload payload) {
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
  aggregator_.add_report(kSelf, std::move(report));
}

void Matching::add_weight(const Request& request, const OpKey& key, Report& report) const {
  report.weight = *request.weight;
  if (std::isfinite(report.weight) && report.weight >= 0.0) return;
  report.code = Code::kInvalidArgument;
  report.message =
      fmt::format("{}: rank {} submitted weight {}{}; allowed: finite, 0 or more",
                  label(request.kind, key), rank_, report.weight, at_site(request.call_site));
}

Status Matching::join(std::uint64_t ticket) {
  if (join_ticket_ != 0) {
    return Status(Code::kInvalidArgument, "join called again before all ranks have joined");
  }
  join_ticket_ = ticket;
  aggregator_.join(kSelf, rank_);
  report_completed();
  return {};
}

Status Matching::check_tick(const TickFrame& tick, int source, std::uint64_t sequence) const {
  if (tick.acked > sequence || tick.acked < acked_[static_cast<std::size_t>(source)]) {
    return out_of_protocol(fmt::format("acknowledges batch {} of {}", tick.acked, sequence));
  }
  RONDE_RETURN_IF_ERROR(check_bits(tick));
  for (const Report& report : tick.reports) {
    if (!is_member(report.rank)) return out_of_protocol("a report of a rank outside the set");
    if (report.slot < 0) {
      RONDE_RETURN_IF_ERROR(check_payload(report.payload, *report.request, members_));
      continue;
    }
    const RequestPtr cached = cache_.at(report.slot, tick.acked);
    if (!may_name_slot(cached, report.ordinal)) {
      return out_of_protocol(fmt::format("slot {} holds no such request", report.slot));
    }
    RONDE_RETURN_IF_ERROR(check_payload(report.payload, *cached, members_));
  }
  if (tick.last_joined >= 0 && (!is_member(tick.last_joined) || aggregator_.joined(source))) {
    return out_of_protocol("a join of a rank outside the set, or a second one");
  }
  return {};
}

Status Matching::check_bits(const TickFrame& tick) const {
  const auto named = cache_.named();
  if (tick.first_word > named.size() || tick.words.size() > named.size() - tick.first_word) {
    return tick.words.empty() ? Status() : out_of_protocol("bits beyond the cache");
  }
  bool known = true;
  if (cache_.last_change() <= tick.acked) {
    for (std::size_t i = 0; i < tick.words.size(); ++i) {
      known = known && (tick.words[i] & ~named[tick.first_word + i]) == 0;
    }
  } else {
    for_each_slot(tick, [&](int slot) {
      const RequestPtr cached = cache_.at(slot, tick.acked);
      known = known && cached != nullptr && !cached->name.empty() && !cached->weight;
    });
  }
  return known ? Status() : out_of_protocol("a bit for a slot that holds no named request");
}

void Matching::apply_reports(TickFrame& tick, int source) {
  acked_[static_cast<std::size_t>(source)] = tick.acked;
  if (cache_.last_change() <= tick.acked && failed_.empty()) {
    aggregator_.add_words(source, tick.first_word, tick.words);
  } else {
    apply_bits_one_by_one(tick, source);
  }
  for (Report& report : tick.reports) {
    if (report.slot >= 0) report.request = cache_.at(report.slot, tick.acked);
    if (!has_failed_since(report.key(), tick.acked)) {
      aggregator_.add_report(source, std::move(report));
    }
  }
  for (const Notice& notice : tick.notices) apply_notice(source, notice);
}

void Matching::apply_bits_one_by_one(const TickFrame& tick, int source) {
  for_each_slot(tick, [&](int slot) {
    RequestPtr meant = cache_.at(slot, tick.acked);
    if (has_failed_since({meant->name, 0}, tick.acked)) return;
    if (meant == cache_.at(slot)) {
      aggregator_.add_bit(source, slot);
      return;
    }
    Report report;
    report.rank = place_.children[static_cast<std::size_t>(source) - 1];
    report.request = std::move(meant);
    aggregator_.add_report(source, std::move(report));
  });
}

void Matching::apply_notice(int source, const Notice& notice) {
  if (aggregator_.add_notice(source, notice) != NoticeResult::kForwarded || place_.is_root()) {
    return;
  }
  draft_.open().notices.push_back(notice);
}

void Matching::report_completed() {
  if (place_.is_root()) return;
  Completed& completed = aggregator_.completed();
  for (const std::int32_t entry : completed.order) {
    TickFrame& tick = draft_.open();
    if (entry < 0) {
      Report& report = completed.reports[static_cast<std::size_t>(-1 - entry)];
      if (report.slot >= 0 && cache_.at(report.slot) != report.request) report.slot = -1;
      tick.reports.push_back(std::move(report));
      continue;
    }
    if (tick.words.size() <= word_of(entry)) tick.words.resize(word_of(entry) + 1);
    tick.words[word_of(entry)] |= mask_of(entry);
  }
  completed.clear();
  if (aggregator_.all_joined() && !std::exchange(reported_join_, true)) {
    draft_.open().last_joined = aggregator_.last_joined();
  }
}

bool Matching::take(const OpKey& key, Agreed& into) {
  aggregator_.resolve(key);
  return take_own(key, into);
}

bool Matching::take_own(const OpKey& key, Agreed& into) {
  if (!key.name.empty() && own_.take(cache_.find(key.name), into)) return true;
  return own_.take(key, into);
}

bool Matching::take_slot(int slot, Agreed& into) {
  aggregator_.resolve_slot(slot);
  return own_.take(slot, into) || (own_.has_keyed() && own_.take({cache_.at(slot)->name, 0}, into));
}

void Matching::vacate_slot(int slot) {
  aggregator_.release_slot(slot);
  own_.leave_slot(slot);
}

void Matching::fail_early(const OpKey& key, const Status& status, std::uint64_t sequence,
                          bool owed) {
  failed_[key] = sequence;
  if (owed && join_ticket_ == 0) owed_[key] = status;
}

std::uint64_t Matching::end_join() {
  aggregator_.leave_join();
  reported_join_ = false;
  unnamed_ = 0;
  owed_.clear();
  failed_.clear();
  return std::exchange(join_ticket_, 0);
}

std::vector<Agreed> Matching::take_all() {
  std::vector<OpKey> keys;
  own_.for_each([&](const OpKey& key, OwnOperation&) { keys.push_back(key); });
  std::vector<Agreed> taken;
  for (const OpKey& key : keys) {
    Agreed operation;
    if (take_own(key, operation)) taken.push_back(std::move(operation));
  }
  if (join_ticket_ == 0) return taken;
  Agreed& join = taken.emplace_back();
  join.ticket = std::exchange(join_ticket_, 0);
  join.request.kind = Collective::kJoin;
  return taken;
}

bool Matching::has_failed_since(const OpKey& key, std::uint64_t acked) const {
  if (failed_.empty()) return false;
  const auto found = failed_.find(key);
  return found != failed_.end() && found->second > acked;
}

void Matching::forget_acked(std::uint64_t sequence) {
  if (!cache_.has_former() && failed_.empty()) return;
  std::uint64_t slowest = sequence;
  for (std::size_t source = 1; source < acked_.size(); ++source) {
    if (!aggregator_.joined(static_cast<int>(source))) {
      slowest = std::min(slowest, acked_[source]);
    }
  }
  cache_.forget_before(slowest);
  std::erase_if(failed_, [&](const auto& entry) { return entry.second <= slowest; });
}

const OwnOperation* Matching::own_in_flight(const OpKey& key) const {
  if (!key.name.empty()) {
    if (const OwnOperation* found = own_.find(cache_.find(key.name))) return found;
  }
  return own_.find(key);
}

bool Matching::takes_part(const OpKey& key) const {
  return join_ticket_ != 0 || own_in_flight(key) != nullptr;
}

bool Matching::is_member(int rank) const {
  return std::binary_search(members_.begin(), members_.end(), rank);
}

std::vector<StallFact> Matching::own_facts(const std::vector<OpKey>& keys, TimePoint now) const {
  std::vector<StallFact> facts;
  facts.reserve(keys.size());
  for (const OpKey& key : keys) {
    StallFact& fact = facts.emplace_back();
    fact.key = key;
    if (const OwnOperation* own = own_in_flight(key)) {
      fact.kind = static_cast<int>(own->request.kind);
      fact.waited_ms = to_ms(now - own->submitted);
    } else if (join_ticket_ == 0) {
      fact.missing = {rank_};
    }
  }
  return facts;
}

std::string Matching::describe_not_awaited() const {
  std::string text;
  std::uint64_t oldest = 0;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    if (oldest != 0 && oldest < operation.ticket) return;
    oldest = operation.ticket;
    text = fmt::format("it has not waited for {}", label(operation.request.kind, key));
  });
  return text;
}

std::vector<std::string> Matching::describe_pending() const {
  std::vector<std::string> lines;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < place_.children.size(); ++i) {
      if (!aggregator_.has(static_cast<int>(i) + 1, key)) missing.push_back(place_.children[i]);
    }
    lines.push_back(label(operation.request.kind, key));
    if (!missing.empty()) {
      lines.back() +=
          fmt::format(": not yet heard from or through ranks {}", fmt::join(missing, ", "));
    }
  });
  return lines;
}

}  // namespace ronde
