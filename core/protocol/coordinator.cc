#include "core/protocol/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/base/wire_codec.h"
#include "core/protocol/inline_payload.h"
#include "core/protocol/request.h"
#include "core/protocol/stall_facts.h"

namespace ronde {
namespace {

// A batch is cut at this size. The largest item still fits on top.
constexpr std::size_t kBatchCutBytes =
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

std::vector<int> source_ranks(int rank, const TreePlace& place) {
  std::vector<int> ranks = {rank};
  ranks.insert(ranks.end(), place.children.begin(), place.children.end());
  return ranks;
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

Coordinator::Coordinator(const TreePlace& place, Member& member, OperationWatch& watch,
                         const PayloadReducer* payloads)
    : place_(place),
      member_(member),
      cache_(member.cache()),
      watch_(watch),
      payloads_(payloads),
      reports_(source_ranks(member.rank(), place), member.cache()),
      acked_(place.children.size() + 1, 0) {}

// This rank.

void Coordinator::submitted(Announcement&& told) {
  if (told.duplicate) return take_notice(kSelf, *told.duplicate);
  if (told.report) {
    reports_.add_report(kSelf, std::move(*told.report));
  } else {
    reports_.add_bit(kSelf, told.slot);
  }
  report_completed();
}

void Coordinator::joined() {
  reports_.join(kSelf, member_.rank());
  report_completed();
}

void Coordinator::leave(int rank, std::string_view why) {
  if (!closed_.ok()) return;
  if (place_.is_root()) {
    close_set(rank, why);
  } else if (next_tick_.frame.leaver < 0) {
    next_tick_.open().leaver = rank;
    next_tick_.open().farewell = why;
  }
}

// The subtree.

Status Coordinator::check(const TickFrame& tick, int source) const {
  if (tick.acked > sequence_ || tick.acked < acked_[static_cast<std::size_t>(source)]) {
    return out_of_protocol(fmt::format("acknowledges batch {} of {}", tick.acked, sequence_));
  }
  RONDE_RETURN_IF_ERROR(check_bits(tick));
  for (const Report& report : tick.reports) {
    if (!member_.is_member(report.rank))
      return out_of_protocol("a report of a rank outside the set");
    if (report.slot < 0) {
      RONDE_RETURN_IF_ERROR(check_payload(report.payload, *report.request, member_.members()));
      continue;
    }
    const RequestPtr cached = cache_.at(report.slot, tick.acked);
    if (!may_name_slot(cached, report.ordinal)) {
      return out_of_protocol(fmt::format("slot {} holds no such request", report.slot));
    }
    RONDE_RETURN_IF_ERROR(check_payload(report.payload, *cached, member_.members()));
  }
  if (tick.last_joined >= 0 && (!member_.is_member(tick.last_joined) || reports_.joined(source))) {
    return out_of_protocol("a join of a rank outside the set, or a second one");
  }
  if (tick.leaver >= 0 && !member_.is_member(tick.leaver)) {
    return out_of_protocol("a rank outside the set leaves");
  }
  return {};
}

Status Coordinator::check_bits(const TickFrame& tick) const {
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

void Coordinator::take_reports(TickFrame& tick, int source) {
  acked_[static_cast<std::size_t>(source)] = tick.acked;
  if (cache_.last_change() <= tick.acked && failed_.empty()) {
    reports_.add_words(source, tick.first_word, tick.words);
  } else {
    take_bits_one_by_one(tick, source);
  }
  for (Report& report : tick.reports) {
    if (report.slot >= 0) report.request = cache_.at(report.slot, tick.acked);
    if (!has_failed_since(report.key(), tick.acked)) {
      reports_.add_report(source, std::move(report));
    }
  }
  for (const Notice& notice : tick.notices) take_notice(source, notice);
}

void Coordinator::take_bits_one_by_one(const TickFrame& tick, int source) {
  for_each_slot(tick, [&](int slot) {
    RequestPtr meant = cache_.at(slot, tick.acked);
    if (has_failed_since({meant->name, 0}, tick.acked)) return;
    if (meant == cache_.at(slot)) {
      reports_.add_bit(source, slot);
      return;
    }
    Report report;
    report.rank = place_.children[static_cast<std::size_t>(source) - 1];
    report.request = std::move(meant);
    reports_.add_report(source, std::move(report));
  });
}

void Coordinator::take_notice(int source, const Notice& notice) {
  if (reports_.add_notice(source, notice) != NoticeResult::kForwarded || place_.is_root()) {
    return;
  }
  next_tick_.open().notices.push_back(notice);
}

void Coordinator::take_changes(const TickFrame& tick, int source) {
  if (tick.last_joined >= 0) reports_.join(source, tick.last_joined);
  if (tick.leaver >= 0) leave(tick.leaver, tick.farewell);
  report_completed();
}

void Coordinator::report_completed() {
  if (place_.is_root()) return;
  Completed& completed = reports_.completed();
  for (const std::int32_t entry : completed.order) {
    TickFrame& tick = next_tick_.open();
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
  if (reports_.all_joined() && !std::exchange(reported_join_, true)) {
    next_tick_.open().last_joined = reports_.last_joined();
  }
}

bool Coordinator::has_failed_since(const OpKey& key, std::uint64_t acked) const {
  if (failed_.empty()) return false;
  const auto found = failed_.find(key);
  return found != failed_.end() && found->second > acked;
}

void Coordinator::forget_acked() {
  if (!cache_.has_former() && failed_.empty()) return;
  std::uint64_t slowest = sequence_;
  for (std::size_t source = 1; source < acked_.size(); ++source) {
    if (!reports_.joined(static_cast<int>(source))) {
      slowest = std::min(slowest, acked_[source]);
    }
  }
  cache_.forget_before(slowest);
  std::erase_if(failed_, [&](const auto& entry) { return entry.second <= slowest; });
}

std::vector<std::string> Coordinator::describe_pending() const {
  std::vector<std::string> lines;
  member_.own().for_each([&](const OpKey& key, const OwnOperation& operation) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < place_.children.size(); ++i) {
      if (!reports_.has(static_cast<int>(i) + 1, key)) missing.push_back(place_.children[i]);
    }
    lines.push_back(label(operation.request.kind, key));
    if (!missing.empty()) {
      lines.back() +=
          fmt::format(": not yet heard from or through ranks {}", fmt::join(missing, ", "));
    }
  });
  return lines;
}

// The root.

void Coordinator::agree() {
  if (!place_.is_root() || !closed_.ok()) return;
  const bool joins = reports_.all_joined();
  if (reports_.completed().order.empty() && !joins) return close_batch();
  std::swap(ready_, reports_.completed());
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
    item.last_joined = reports_.last_joined();
    append(std::move(item));
  }
  close_batch();
}

std::int32_t Coordinator::priority_of(const Completed& ready, std::int32_t entry) const {
  if (entry >= 0) {
    const OwnOperation* own = member_.own().find(entry);
    return own == nullptr ? cache_.at(entry)->priority : own->request.priority;
  }
  const Report& report = ready.reports[static_cast<std::size_t>(-1 - entry)];
  const OwnOperation* own = member_.in_flight(report.key());
  return own == nullptr ? report.request->priority : own->request.priority;
}

void Coordinator::sort_by_priority(Completed& ready) const {
  if (ready.order.size() < 2) return;
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return priority_of(ready, a) > priority_of(ready, b);
  };
  if (std::is_sorted(ready.order.begin(), ready.order.end(), before)) return;
  std::stable_sort(ready.order.begin(), ready.order.end(), before);
}

BatchItem Coordinator::decide(const Report& report) const {
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
  if (payloads_ != nullptr) {
    item.result = combine(report.payload, *report.request, member_.members(), *payloads_);
  }
  name_request(report, item);
  return item;
}

/// By its slot, or in full.
void Coordinator::name_request(const Report& report, BatchItem& item) const {
  const Request& request = *report.request;
  const int known = request.name.empty() ? cache_.find_unnamed(request) : cache_.find(request.name);
  if (known >= 0 && stands_for(*cache_.at(known), request)) {
    item.slot = known;
    return;
  }
  item.slot = cache_.choose(request, [&](int slot) { return !reports_.is_pending(slot); });
  item.request = report.request;
}

void Coordinator::append_cached(int slot, std::int32_t priority) {
  building_.push(slot, priority);
  building_bytes_ += sizeof(slot) + sizeof(priority);
  apply_cached(slot, 0, built_);
  built_.items.back().priority = priority;
  if (building_bytes_ > kBatchCutBytes) close_batch();
}

void Coordinator::append(BatchItem item, std::int32_t priority) {
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
  if (building_bytes_ > kBatchCutBytes) close_batch();
}

void Coordinator::close_batch() {
  if (building_.order.empty() && building_.released == 0 && building_.launches.empty()) return;
  building_.sequence = sequence_ + 1;
  built_.released = building_.released;
  built_.launches = building_.launches;
  if (!place_.children.empty()) send_down(building_);
  building_.clear();
  building_bytes_ = 0;
  finish(sequence_ + 1, std::exchange(built_, {}));
}

void Coordinator::close_set(int leaver, std::string_view why) {
  agree();
  BatchItem item;
  item.leaver = leaver;
  item.message = why;
  append(std::move(item));
  close_batch();
}

// The other ranks.

Status Coordinator::take(const BatchFrame& batch, std::span<const std::byte> frame) {
  RONDE_RETURN_IF_ERROR(check(batch));
  forward(frame);
  if (batch.changes_cache()) send_up();  // the tick's bits mean the slots as they are
  apply(batch);
  return {};
}

Status Coordinator::check(const BatchFrame& batch) const {
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
    if (member_.own().find(entry) == nullptr && !member_.takes_part({cached->name, 0})) {
      return bad_batch(fmt::format("\"{}\" was not submitted here", cached->name));
    }
  }
  return {};
}

Status Coordinator::check_item(const BatchItem& item, std::size_t& slots) const {
  if (item.last_joined >= 0) {
    return member_.has_joined() && member_.is_member(item.last_joined)
               ? Status()
               : bad_batch("a join agreed without this rank");
  }
  if (item.leaver >= 0) {
    return member_.is_member(item.leaver) ? Status() : bad_batch("a rank outside the set left");
  }
  if (item.code != Code::kOk) return {};
  if (!std::isfinite(item.weight) || item.weight < 0.0) return bad_batch("a sum of weights");
  if (item.request == nullptr && item.ordinal == 0) return check_named_slot(item);
  if (!member_.takes_part(key_of(item))) return bad_batch("an operation not submitted here");
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

Status Coordinator::check_named_slot(const BatchItem& item) const {
  const RequestPtr& cached = cache_.at(item.slot);
  if (!may_name_slot(cached, 0) || cached->weight.has_value() == (item.weight == 0.0)) {
    return bad_batch(fmt::format("slot {} holds no such request", item.slot));
  }
  if (!fits(item.result, *cached)) return bad_batch("a result of another size");
  return member_.takes_part({cached->name, 0}) ? Status()
                                               : bad_batch("an operation not submitted here");
}

// All ranks.

void Coordinator::apply(const BatchFrame& batch) {
  Batch out;
  out.items.reserve(batch.order.size());
  for (std::size_t i = 0; i < batch.order.size(); ++i) apply_entry(batch, i, out);
  out.released = batch.released;
  out.launches = batch.launches;
  finish(batch.sequence, std::move(out));
}

void Coordinator::apply_entry(const BatchFrame& batch, std::size_t index, Batch& out) {
  const std::int32_t entry = batch.order[index];
  const std::size_t known = out.items.size();
  if (entry >= 0) {
    apply_cached(entry, 0, out);
  } else {
    apply_item(batch.items[static_cast<std::size_t>(-1 - entry)], batch.sequence, out);
  }
  prioritise(out, known, batch.priority(index));
}

void Coordinator::apply_cached(int slot, std::uint64_t ordinal, Batch& out) {
  const Request& request = *cache_.at(slot);
  Agreed& item = out.items.emplace_back();
  bool is_own = false;
  if (ordinal == 0) {
    reports_.resolve_slot(slot);
    is_own = member_.take_slot(slot, item);
  } else {
    reports_.resolve({{}, ordinal});
    is_own = member_.take({{}, ordinal}, item);
  }
  if (!is_own) item.request = request;
  if (place_.is_root() && watch_.has_open_questions()) watch_.settled({request.name, ordinal});
  if (place_.is_root()) cache_.touch(slot);
  ++stats_.cached_agreements;
}

void Coordinator::apply_item(const BatchItem& item, std::uint64_t sequence, Batch& out) {
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

void Coordinator::apply_full(const BatchItem& item, std::uint64_t sequence, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  reports_.resolve(key);
  if (!member_.take(key, agreed)) agreed.request = *item.request;
  settle(key);
  if (item.slot >= 0) {
    reports_.release_slot(item.slot);
    member_.own().leave_slot(item.slot);
    if (cache_.assign(item.slot, item.request, sequence)) ++stats_.evictions;
  }
  ++stats_.full_agreements;
}

void Coordinator::apply_failure(const BatchItem& item, std::uint64_t sequence, Batch& out) {
  const OpKey key = key_of(item);
  Agreed& agreed = out.items.emplace_back();
  agreed.status = Status(item.code, item.message);
  reports_.resolve(key);
  const bool is_own = member_.take(key, agreed);
  if (!is_own) {
    agreed.request.name = item.name;
    agreed.request.kind = item.kind;
  }
  settle(key);
  if (!item.early) return;
  failed_[key] = sequence;
  if (!is_own) member_.owe(key, agreed.status);
}

void Coordinator::apply_join(int last_joined, Batch& out) {
  reports_.leave_join();
  reported_join_ = false;
  failed_.clear();
  Agreed agreed;
  agreed.ticket = member_.end_join();
  agreed.request.kind = Collective::kJoin;
  agreed.last_joined = last_joined;
  out.items.push_back(std::move(agreed));
}

void Coordinator::apply_leave(const BatchItem& closing, Batch& out) {
  closed_ =
      Status(Code::kRankFailure, fmt::format("rank {} has left the job{}{}", closing.leaver,
                                             closing.message.empty() ? "" : ": ", closing.message))
          .about({closing.leaver, "", 0});
  left_in_order_ = closing.message.empty();
  for (Agreed& failed : member_.take_all()) {
    failed.status = closed_;
    out.items.push_back(std::move(failed));
  }
}

std::string Coordinator::waits_for_leaver(const Request& request) const {
  return waits_for_leaver_text(request, closed_.failed_rank()->rank, cache_.last_use(request) > 0,
                               left_in_order_);
}

void Coordinator::settle(const OpKey& key) {
  if (place_.is_root() && watch_.has_open_questions()) watch_.settled(key);
}

void Coordinator::finish(std::uint64_t sequence, Batch batch) {
  sequence_ = sequence;
  batches_.push_back(std::move(batch));
  forget_acked();
}

// Frames.

void Coordinator::send_up() {
  if (next_tick_.is_empty) return;
  TickFrame& tick = next_tick_.frame;
  const auto first = std::find_if(tick.words.begin(), tick.words.end(),
                                  [](std::uint64_t word) { return word != 0; });
  tick.first_word = static_cast<std::uint32_t>(first - tick.words.begin());
  tick.words.erase(tick.words.begin(), first);
  if (tick.words.empty()) tick.first_word = 0;
  tick.acked = sequence_;
  writer_.write(tick, [this](std::span<const std::byte> bytes) {
    frames_.push_back({place_.parent, {bytes.begin(), bytes.end()}});
  });
  tick.clear();
  next_tick_.is_empty = true;
}

void Coordinator::forward(std::span<const std::byte> frame) {
  for (const int child : place_.children) {
    frames_.push_back({child, {frame.begin(), frame.end()}});
  }
}

void Coordinator::take_frames(std::vector<OutFrame>& out) {
  send_up();
  stats_.frames_sent += frames_.size();
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

void Coordinator::take_batches(std::vector<Batch>& out) {
  std::move(batches_.begin(), batches_.end(), std::back_inserter(out));
  batches_.clear();
}

}  // namespace ronde
