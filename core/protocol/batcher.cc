#include "core/protocol/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/payload_limit.h"
#include "core/protocol/fewer_batches.h"
#include "core/protocol/signature.h"
#include "core/protocol/wire.h"

namespace ronde {
namespace {

// A batch is cut at this size. The largest item still fits on top.
constexpr std::size_t kCutBytes =
    kMaxNegotiationFrameBytes - kMaxRequestBytes - kMaxPayloadBytes - (64 << 10);

Status bad_batch(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("batch out of protocol: {}", what));
}

/// The sum of weights must divide.
Status check_weights(const Report& report) {
  if (!report.request->weight || (std::isfinite(report.weight) && report.weight > 0.0)) return {};
  const char* const why = report.weight == 0.0
                              ? "the weights of all ranks are 0; allowed: at least "
                                "one above 0"
                              : "the sum of all ranks' weights is not finite";
  return {Code::kInvalidArgument,
          fmt::format("{}: {}", label(report.request->kind, report.key()), why)};
}

/// True if an item for this request may have this result, which may be none.
bool fits(const std::vector<std::byte>& result, const Request& request) {
  return result.empty() || (may_carry_payload(request) && result.size() == payload_bytes(request));
}

OpKey key_of(const BatchItem& item) {
  const Request* const request = item.request.get();
  return {request != nullptr ? request->name : item.name, item.ordinal};
}

/// Gives the items behind the first `known` ones their entry's priority. An entry adds one item;
/// that of a rank that leaves adds any number.
void prioritise(Batch& batch, std::size_t known, std::int32_t priority) {
  for (std::size_t i = known; i < batch.items.size(); ++i) batch.items[i].priority = priority;
}

}  // namespace

Status Batcher::check(const BatchFrame& batch) const {
  if (batch.sequence != sequence_ + 1) {
    return bad_batch(fmt::format("number {} follows {}", batch.sequence, sequence_));
  }
  std::size_t slots = cache_.slot_count();
  for (const std::int32_t entry : batch.order) {
    if (entry < 0) {
      RONDE_RETURN_IF_ERROR(check_item(batch.items[static_cast<std::size_t>(-1 - entry)], slots));
      continue;
    }
    const RequestPtr& cached = cache_.at(entry);
    if (cached == nullptr || cached->name.empty() || cached->weight) {
      return bad_batch(fmt::format("slot {} holds no named request", entry));
    }
    if (own_.find(entry) == nullptr && !matching_.takes_part({cached->name, 0})) {
      return bad_batch(fmt::format("\"{}\" was not submitted here", cached->name));
    }
  }
  return {};
}

Status Batcher::check_item(const BatchItem& item, std::size_t& slots) const {
  if (item.last_joined >= 0) {
    return matching_.has_joined() && matching_.is_member(item.last_joined)
               ? Status()
               : bad_batch("a join agreed without this rank");
  }
  if (item.leaver >= 0) {
    return matching_.is_member(item.leaver) ? Status() : bad_batch("a rank outside the set left");
  }
  if (item.code != Code::kOk) return {};
  if (!std::isfinite(item.weight) || item.weight < 0.0) return bad_batch("a sum of weights");
  if (item.request == nullptr && item.ordinal == 0) return check_named_slot(item);
  if (!matching_.takes_part(key_of(item))) return bad_batch("an operation not submitted here");
  if (item.request == nullptr) {
    return static_cast<std::size_t>(item.slot) < slots
               ? Status()
               : bad_batch(fmt::format("slot {} holds no unnamed request", item.slot));
  }
  if (!fits(item.result, *item.request)) return bad_batch("a result of another size");
  if (item.slot < 0) return {};
  const auto slot = static_cast<std::size_t>(item.slot);
  if (slot >= cache_.capacity() || slot > slots) {
    return bad_batch(fmt::format("slot {} of {}", item.slot, cache_.capacity()));
  }
  const int known = item.request->name.empty() ? -1 : cache_.find(item.request->name);
  if (known >= 0 && known != item.slot) return bad_batch("a name in two slots");
  slots = std::max(slots, slot + 1);
  return {};
}

Status Batcher::check_named_slot(const BatchItem& item) const {
  const RequestPtr& cached = cache_.at(item.slot);
  if (!may_name_slot(cached, 0) || cached->weight.has_value() == (item.weight == 0.0)) {
    return bad_batch(fmt::format("slot {} holds no such request", item.slot));
  }
  if (!fits(item.result, *cached)) return bad_batch("a result of another size");
  return matching_.takes_part({cached->name, 0}) ? Status()
                                                 : bad_batch("an operation not submitted here");
}

void Batcher::apply(const BatchFrame& batch) {
  Batch out;
  out.items.reserve(batch.order.size());
  for (std::size_t i = 0; i < batch.order.size(); ++i) apply_entry(batch, i, out);
  out.released = batch.released;
  out.launches = batch.launches;
  finish(batch.sequence, std::move(out));
}

void Batcher::apply_entry(const BatchFrame& batch, std::size_t index, Batch& out) {
  const std::int32_t entry = batch.order[index];
  const std::size_t known = out.items.size();
  if (entry >= 0) {
    apply_cached(entry, 0, out);
  } else {
    apply_item(batch.items[static_cast<std::size_t>(-1 - entry)], batch.sequence, out);
  }
  prioritise(out, known, batch.priority(index));
}

void Batcher::agree() {
  if (!place_.is_root() || !closed_.ok()) return;
  const bool joins = aggregator_.all_joined();
  if (aggregator_.completed().order.empty() && !joins) return close_batch();
  std::swap(ready_, aggregator_.completed());
  sort_by_priority(ready_);
  built_.items.reserve(ready_.order.size());
  for (const std::int32_t entry : ready_.order) {
    const std::int32_t priority = priority_of(ready_, entry);
    if (entry >= 0) {
      append_cached(entry, priority);
    } else {
      append(decide(ready_.reports[static_cast<std::size_t>(-1 - entry)]), priority);
    }
  }
  ready_.clear();
  if (joins) {
    BatchItem item;
    item.last_joined = aggregator_.last_joined();
    append(std::move(item));
  }
  close_batch();
}

std::int32_t Batcher::priority_of(const Completed& ready, std::int32_t entry) const {
  if (entry >= 0) {
    const OwnOperation* own = own_.find(entry);
    return own == nullptr ? cache_.at(entry)->priority : own->request.priority;
  }
  const Report& report = ready.reports[static_cast<std::size_t>(-1 - entry)];
  const OwnOperation* own = matching_.own_in_flight(report.key());
  return own == nullptr ? report.request->priority : own->request.priority;
}

void Batcher::sort_by_priority(Completed& ready) const {
  if (ready.order.size() < 2) return;
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return priority_of(ready, a) > priority_of(ready, b);
  };
  if (std::is_sorted(ready.order.begin(), ready.order.end(), before)) return;
  std::stable_sort(ready.order.begin(), ready.order.end(), before);
}

BatchItem Batcher::decide(const Report& report) const {
  BatchItem item;
  item.ordinal = report.ordinal;
  const Status status =
      report.code != Code::kOk ? Status(report.code, report.message) : check_weights(report);
  if (!status.ok()) {
    item.name = report.request->name;
    item.kind = report.request->kind;
    item.code = status.code();
    item.message = status.message();
    return item;
  }
  item.weight = report.weight;
  item.result = combine_(report);
  name_request(report, item);
  return item;
}

/// By its slot, or in full.
void Batcher::name_request(const Report& report, BatchItem& item) const {
  const Request& request = *report.request;
  const int known = request.name.empty() ? cache_.find_unnamed(request) : cache_.find(request.name);
  if (known >= 0 && stands_for(*cache_.at(known), request)) {
    item.slot = known;
    return;
  }
  item.slot = cache_.choose(request, [&](int slot) { return !aggregator_.is_pending(slot); });
  item.request = report.request;
}

void Batcher::append_cached(int slot, std::int32_t priority) {
  building_.push(slot, priority);
  building_bytes_ += sizeof(slot) + sizeof(priority);
  apply_cached(slot, 0, built_);
  built_.items.back().priority = priority;
  if (building_bytes_ > kCutBytes) close_batch();
}

void Batcher::append(BatchItem item, std::int32_t priority) {
  const bool is_cached_name = item.code == Code::kOk && item.last_joined < 0 && item.leaver < 0 &&
                              item.request == nullptr && item.ordinal == 0 && item.weight == 0.0 &&
                              item.result.empty();
  if (is_cached_name) return append_cached(item.slot, priority);
  const std::size_t known = built_.items.size();
  apply_item(item, sequence_ + 1, built_);
  prioritise(built_, known, priority);
  building_bytes_ += wire_bytes(item) + sizeof(priority);
  building_.items.push_back(std::move(item));
  building_.push(-static_cast<std::int32_t>(building_.items.size()), priority);
  if (building_bytes_ > kCutBytes) close_batch();
}

void Batcher::close_batch() {
  if (building_.order.empty() && building_.released == 0 && building_.launches.empty()) return;
  building_.sequence = sequence_ + 1;
  built_.released = building_.released;
  built_.launches = building_.launches;
  if (!place_.children.empty()) send_(building_);
  building_.clear();
  building_bytes_ = 0;
  finish(sequence_ + 1, std::exchange(built_, {}));
}

void Batcher::apply_cached(int slot, std::uint64_t ordinal, Batch& out) {
  const Request& request = *cache_.at(slot);
  Agreed& item = out.items.emplace_back();
  const bool is_own =
      ordinal == 0 ? matching_.take_slot(slot, item) : matching_.take({{}, ordinal}, item);
  if (!is_own) item.request = request;
  if (place_.is_root() && stalls_.has_open_questions()) stalls_.settled({request.name, ordinal});
  if (place_.is_root()) cache_.touch(slot);
  ++stats_.cached_agreements;
}

void Batcher::apply_item(const BatchItem& item, std::uint64_t sequence, Batch& out) {
  if (item.last_joined >= 0) {
    apply_join(item.last_joined, out);
  } else if (item.leaver >= 0) {
    apply_leave(item, out);
  } else if (item.code != Code::kOk) {
    apply_failure(item, sequence, out);
  } else {
    if (item.request == nullptr) {
      apply_cached(item.slot, item.ordinal, out);
    } else {
      apply_full(item, sequence, out);
    }
    out.items.back().weights = item.weight;
    out.items.back().result = item.result;
    if (!item.result.empty()) ++stats_.payloads;
  }
}

void Batcher::apply_full(const BatchItem& item, std::uint64_t sequence, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  if (!matching_.take(key, agreed)) agreed.request = *item.request;
  settle(key);
  if (item.slot >= 0) {
    matching_.vacate_slot(item.slot);
    if (cache_.assign(item.slot, item.request, sequence)) ++stats_.evictions;
  }
  ++stats_.full_agreements;
}

void Batcher::apply_failure(const BatchItem& item, std::uint64_t sequence, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  agreed.status = Status(item.code, item.message);
  const bool is_own = matching_.take(key, agreed);
  if (!is_own) {
    agreed.request.name = item.name;
    agreed.request.kind = item.kind;
  }
  settle(key);
  if (item.early) matching_.fail_early(key, agreed.status, sequence, !is_own);
}

void Batcher::apply_join(int last_joined, Batch& out) {
  Agreed agreed;
  agreed.ticket = matching_.end_join();
  agreed.request.kind = Collective::kJoin;
  agreed.last_joined = last_joined;
  out.items.push_back(std::move(agreed));
}

void Batcher::apply_leave(const BatchItem& closing, Batch& out) {
  closed_ =
      Status(Code::kRankFailure, fmt::format("rank {} has left the job{}{}", closing.leaver,
                                             closing.message.empty() ? "" : ": ", closing.message))
          .about({closing.leaver, "", 0});
  left_in_order_ = closing.message.empty();
  for (Agreed& failed : matching_.take_all()) {
    failed.status = closed_;
    out.items.push_back(std::move(failed));
  }
}

std::string Batcher::waits_for_leaver(const Request& request) const {
  return waits_for_leaver_text(request, closed_.failed_rank()->rank, cache_.last_use(request) > 0,
                               left_in_order_);
}

void Batcher::close_set(int leaver, std::string_view why) {
  agree();
  BatchItem item;
  item.leaver = leaver;
  item.message = why;
  append(std::move(item));
  close_batch();
}

void Batcher::settle(const OpKey& key) {
  if (place_.is_root() && stalls_.has_open_questions()) stalls_.settled(key);
}

void Batcher::finish(std::uint64_t sequence, Batch batch) {
  sequence_ = sequence;
  batches_.push_back(std::move(batch));
  matching_.forget_acked(sequence);
}

void Batcher::take(std::vector<Batch>& out) {
  std::move(batches_.begin(), batches_.end(), std::back_inserter(out));
  batches_.clear();
}

}  // namespace ronde
