#include "core/protocol/batch_applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/protocol/inline_payload.h"
#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

Status bad_batch(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("batch out of protocol: {}", what));
}

/// True if an item for this request may have this result, which may be none.
bool fits(const std::vector<std::byte>& result, const Request& request) {
  return result.empty() || (may_carry_payload(request) && result.size() == payload_bytes(request));
}

OpKey key_of(const BatchItem& item) {
  const Request* const request = item.request.get();
  return {request != nullptr ? request->name : item.name, item.ordinal};
}

}  // namespace

// Checks.

Status BatchApplier::check(const BatchFrame& batch) const {
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
    if (own_.find(entry) == nullptr && !own_.takes_part({cached->name, 0})) {
      return bad_batch(fmt::format("\"{}\" was not submitted here", cached->name));
    }
  }
  return {};
}

Status BatchApplier::check_item(const BatchItem& item, std::size_t& slots) const {
  if (item.last_joined >= 0) {
    return own_.has_joined() && node_.is_member(item.last_joined)
               ? Status()
               : bad_batch("a join agreed without this rank");
  }
  if (item.leaver >= 0) {
    return node_.is_member(item.leaver) ? Status() : bad_batch("a rank outside the set left");
  }
  if (item.code != Code::kOk) return {};
  if (!std::isfinite(item.weight) || item.weight < 0.0) return bad_batch("a sum of weights");
  if (item.request == nullptr && item.ordinal == 0) return check_named_slot(item);
  if (!own_.takes_part(key_of(item))) return bad_batch("an operation not submitted here");
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
  const int known = cache_.find(item.request->name);
  if (known >= 0 && known != item.slot) return bad_batch("a name in two slots");
  slots = std::max(slots, slot + 1);
  return {};
}

Status BatchApplier::check_named_slot(const BatchItem& item) const {
  const RequestPtr& cached = cache_.at(item.slot);
  if (!may_name_slot(cached, 0) || cached->weight.has_value() == (item.weight == 0.0)) {
    return bad_batch(fmt::format("slot {} holds no such request", item.slot));
  }
  if (!fits(item.result, *cached)) return bad_batch("a result of another size");
  return own_.takes_part({cached->name, 0}) ? Status()
                                            : bad_batch("an operation not submitted here");
}

// Application.

void BatchApplier::apply(const BatchFrame& batch) {
  Batch out;
  out.items.reserve(batch.order.size());
  for (std::size_t i = 0; i < batch.order.size(); ++i) {
    const std::int32_t entry = batch.order[i];
    if (entry >= 0) {
      apply(entry, batch.priority(i), out);
    } else {
      apply(batch.items[static_cast<std::size_t>(-1 - entry)], batch.priority(i), out);
    }
  }
  out.released = batch.released;
  out.launches = batch.launches;
  finish(std::move(out));
}

void BatchApplier::apply(int slot, std::int32_t priority, Batch& out) {
  apply_cached(slot, 0, out);
  out.items.back().priority = priority;
}

void BatchApplier::apply(const BatchItem& item, std::int32_t priority, Batch& out) {
  const std::size_t known = out.items.size();  // a rank that leaves adds any number
  apply_item(item, out);
  for (std::size_t i = known; i < out.items.size(); ++i) out.items[i].priority = priority;
}

void BatchApplier::apply_item(const BatchItem& item, Batch& out) {
  if (item.last_joined >= 0) return apply_join(item.last_joined, out);
  if (item.leaver >= 0) return apply_leave(item, out);
  if (item.code != Code::kOk) return apply_failure(item, out);
  if (item.request == nullptr) {
    apply_cached(item.slot, item.ordinal, out);
  } else {
    apply_full(item, out);
  }
  out.items.back().weights = item.weight;
  out.items.back().result = item.result;
  if (!item.result.empty()) ++stats_.payloads;
}

void BatchApplier::apply_cached(int slot, std::uint64_t ordinal, Batch& out) {
  const Request& request = *cache_.at(slot);
  Agreed& item = out.items.emplace_back();
  bool is_own = false;
  if (ordinal == 0) {
    subtree_.resolve(slot);
    is_own = own_.take(slot, item);
  } else {
    const OpKey key{{}, ordinal};
    subtree_.resolve(key);
    is_own = own_.take(key, item);
  }
  if (!is_own) item.request = request;
  settle(request.name, ordinal);
  if (node_.is_root()) cache_.touch(slot);
  ++stats_.cached_agreements;
}

void BatchApplier::apply_full(const BatchItem& item, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  subtree_.resolve(key);
  if (!own_.take(key, agreed)) agreed.request = *item.request;
  settle(key.name, key.ordinal);
  if (item.slot >= 0) {
    subtree_.release_slot(item.slot);
    own_.leave_slot(item.slot);
    if (cache_.assign(item.slot, item.request, sequence_ + 1)) ++stats_.evictions;
  }
  ++stats_.full_agreements;
}

void BatchApplier::apply_failure(const BatchItem& item, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  agreed.status = Status(item.code, item.message);
  subtree_.resolve(key);
  const bool is_own = own_.take(key, agreed);
  if (!is_own) {
    agreed.request.name = item.name;
    agreed.request.kind = item.kind;
  }
  settle(key.name, key.ordinal);
  if (!item.early) return;
  subtree_.note_failed(key, sequence_ + 1);
  if (!is_own) own_.owe(key, agreed.status);
}

void BatchApplier::apply_join(int last_joined, Batch& out) {
  subtree_.end_join();
  Agreed& agreed = out.items.emplace_back();
  agreed.ticket = own_.take_join();
  agreed.request.kind = Collective::kJoin;
  agreed.last_joined = last_joined;
}

void BatchApplier::apply_leave(const BatchItem& closing, Batch& out) {
  closed_ =
      Status(Code::kRankFailure, fmt::format("rank {} has left the job{}{}", closing.leaver,
                                             closing.message.empty() ? "" : ": ", closing.message))
          .about({closing.leaver, "", 0});
  left_in_order_ = closing.message.empty();
  for (Agreed& failed : own_.take_all()) {
    failed.status = closed_;
    out.items.push_back(std::move(failed));
  }
}

void BatchApplier::settle(const std::string& name, std::uint64_t ordinal) {
  if (node_.is_root() && watch_.has_open_questions()) watch_.settled({name, ordinal});
}

void BatchApplier::finish(Batch batch) {
  ++sequence_;
  batches_.push_back(std::move(batch));
  forget_acked();
}

void BatchApplier::forget_acked() {
  if (!cache_.has_former() && !subtree_.has_failed()) return;
  cache_.forget_before(subtree_.forget_acked(sequence_));
}

void BatchApplier::take_batches(std::vector<Batch>& out) {
  std::move(batches_.begin(), batches_.end(), std::back_inserter(out));
  batches_.clear();
}

std::string BatchApplier::waits_for_leaver(const Request& request) const {
  return waits_for_leaver_text(request, closed_.failed_rank()->rank, cache_.last_use(request) > 0,
                               left_in_order_);
}

}  // namespace ronde
