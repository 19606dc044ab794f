// The way up: what children report, and what this subtree reports to the parent. A bit means "the
// request that this slot held in the last batch I acknowledged".
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/protocol/negotiator_impl.h"

namespace ronde {
namespace {

Status bad_frame(std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("frame out of protocol: {}", what));
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

Status Negotiator::Impl::on_frame(int from, std::span<const std::byte> frame, TimePoint now) {
  RONDE_ASSIGN_OR_RETURN(const FrameKind kind, reader_.read(frame));
  if (kind == FrameKind::kTick) {
    const auto& children = place_.children;
    const auto child = std::find(children.begin(), children.end(), from);
    if (child == children.end()) return bad_frame(fmt::format("rank {} is no child", from));
    const int source = static_cast<int>(child - children.begin()) + 1;
    RONDE_RETURN_IF_ERROR(check_tick(reader_.tick, source));
    apply_tick(reader_.tick, source, now);
    return {};
  }
  if (is_root() || from != place_.parent) {
    return bad_frame(fmt::format("rank {} is not the parent", from));
  }
  return from_parent(kind, frame, now);
}

Status Negotiator::Impl::from_parent(FrameKind kind, std::span<const std::byte> frame,
                                     TimePoint now) {
  if (kind == FrameKind::kBatch) {
    RONDE_RETURN_IF_ERROR(check_batch(reader_.batch));
    forward(frame);
    apply_batch(reader_.batch);
  } else if (kind == FrameKind::kQuery) {
    if (query_.active() || reader_.query.query == 0) return bad_frame("a second query");
    forward(frame);
    answer_query(reader_.query, now);
  } else {
    forward(frame);
    warn(reader_.warning);
  }
  return {};
}

Status Negotiator::Impl::check_tick(const TickFrame& tick, int source) const {
  if (tick.acked > sequence_ || tick.acked < acked_[static_cast<std::size_t>(source)]) {
    return bad_frame(fmt::format("acknowledges batch {} of {}", tick.acked, sequence_));
  }
  RONDE_RETURN_IF_ERROR(check_bits(tick));
  for (const Report& report : tick.reports) {
    if (!is_member(report.rank)) return bad_frame("a report of a stranger");
    if (report.slot < 0) continue;
    const RequestPtr cached = cache_.at(report.slot, tick.acked);
    if (cached == nullptr || !cached->name.empty() || report.ordinal == 0) {
      return bad_frame(fmt::format("slot {} holds no unnamed request", report.slot));
    }
  }
  if (tick.query != 0 && !query_.expects(static_cast<std::size_t>(source) - 1, tick.query)) {
    return bad_frame("an answer nobody asked for");
  }
  for (const StallFact& fact : tick.facts) {
    if (fact.blocked.rank >= 0 && !is_member(fact.blocked.rank)) {
      return bad_frame("an operation of a stranger");
    }
  }
  if (tick.last_joined >= 0 && (!is_member(tick.last_joined) || aggregator_.joined(source))) {
    return bad_frame("a join of a stranger, or a second one");
  }
  if (tick.leaver >= 0 && !is_member(tick.leaver)) return bad_frame("a stranger leaves");
  return {};
}

bool Negotiator::Impl::is_member(int rank) const {
  return std::binary_search(options_.members.begin(), options_.members.end(), rank);
}

Status Negotiator::Impl::check_bits(const TickFrame& tick) const {
  const auto named = cache_.named();
  if (tick.first_word > named.size() || tick.words.size() > named.size() - tick.first_word) {
    return tick.words.empty() ? Status() : bad_frame("bits beyond the cache");
  }
  bool known = true;
  if (cache_.last_change() <= tick.acked) {
    for (std::size_t i = 0; i < tick.words.size(); ++i) {
      known = known && (tick.words[i] & ~named[tick.first_word + i]) == 0;
    }
  } else {
    for_each_slot(tick, [&](int slot) {
      const RequestPtr cached = cache_.at(slot, tick.acked);
      known = known && cached != nullptr && !cached->name.empty();
    });
  }
  return known ? Status() : bad_frame("a bit for a slot that holds no named request");
}

void Negotiator::Impl::apply_tick(TickFrame& tick, int source, TimePoint now) {
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
  for (const Overdue& overdue : tick.overdue) note_overdue(overdue, now);
  if (tick.last_joined >= 0) aggregator_.join(source, tick.last_joined);
  if (tick.leaver >= 0) note_leaver(tick.leaver, tick.farewell);
  move_completed_up();
  if (tick.query != 0) {
    query_.answer(static_cast<std::size_t>(source) - 1, tick.facts);
    after_answer(now);
  }
  forget_acked();
}

void Negotiator::Impl::apply_bits_one_by_one(const TickFrame& tick, int source) {
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

void Negotiator::Impl::apply_notice(int source, const Notice& notice) {
  if (aggregator_.add_notice(source, notice) != NoticeResult::kForwarded || is_root()) return;
  draft_.notices.push_back(notice);
  has_draft_ = true;
}

bool Negotiator::Impl::has_failed_since(const OpKey& key, std::uint64_t acked) const {
  if (failed_.empty()) return false;
  const auto found = failed_.find(key);
  return found != failed_.end() && found->second > acked;
}

void Negotiator::Impl::forget_acked() {
  if (!cache_.has_former() && failed_.empty()) return;
  std::uint64_t slowest = sequence_;
  for (std::size_t source = 1; source < acked_.size(); ++source) {
    if (!aggregator_.joined(static_cast<int>(source))) {
      slowest = std::min(slowest, acked_[source]);
    }
  }
  cache_.forget_before(slowest);
  std::erase_if(failed_, [&](const auto& entry) { return entry.second <= slowest; });
}

void Negotiator::Impl::move_completed_up() {
  if (is_root()) return;
  Completed& completed = aggregator_.completed();
  for (const std::int32_t entry : completed.order) {
    if (entry < 0) {
      Report& report = completed.reports[static_cast<std::size_t>(-1 - entry)];
      if (report.slot >= 0 && cache_.at(report.slot) != report.request) report.slot = -1;
      draft_.reports.push_back(std::move(report));
      continue;
    }
    const auto word = static_cast<std::size_t>(entry) / 64;
    if (draft_.words.size() <= word) draft_.words.resize(word + 1);
    draft_.words[word] |= std::uint64_t{1} << (entry % 64);
  }
  has_draft_ = has_draft_ || !completed.order.empty();
  completed.clear();
  if (aggregator_.all_joined() && !told_joined_) {
    told_joined_ = true;
    draft_.last_joined = aggregator_.last_joined();
    has_draft_ = true;
  }
}

void Negotiator::Impl::flush_tick() {
  if (!has_draft_) return;
  const auto first = std::find_if(draft_.words.begin(), draft_.words.end(),
                                  [](std::uint64_t word) { return word != 0; });
  draft_.first_word = static_cast<std::uint32_t>(first - draft_.words.begin());
  draft_.words.erase(draft_.words.begin(), first);
  if (draft_.words.empty()) draft_.first_word = 0;
  draft_.acked = sequence_;
  writer_.write(draft_, [&](std::span<const std::byte> bytes) {
    frames_.push_back({place_.parent, {bytes.begin(), bytes.end()}});
  });
  draft_.clear();
  has_draft_ = false;
}

}  // namespace ronde
