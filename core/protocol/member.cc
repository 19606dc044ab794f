#include "core/protocol/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/join_text.h"

namespace ronde {
namespace {

/// In one tick of a rank. A report is larger than a bit, and fusion serves many operations better.
constexpr std::size_t kMostPayloads = 16;

}  // namespace

Member::Member(MemberOptions options)
    : options_(std::move(options)),
      node_{place_in_tree(options_.rank, options_.members, options_.hosts), options_.rank,
            options_.members},
      spans_hosts_(std::adjacent_find(options_.hosts.begin(), options_.hosts.end(),
                                      std::not_equal_to<>()) != options_.hosts.end()),
      cache_(options_.cache_capacity),
      own_(node_, cache_),
      sender_(node_),
      subtree_(node_, cache_, sender_),
      watch_(options_.rank, options_.stall, options_.cycle_watch, own_),
      applier_(node_, own_, subtree_, cache_, watch_) {
  if (node_.is_root()) {
    coordinator_.emplace(node_, own_, subtree_, applier_, sender_, options_.payloads);
  }
}

// This rank.

bool Member::wants_payload(const Request& request) const noexcept {
  if (!spans_hosts_ || options_.payloads == nullptr || !may_carry_payload(request)) return false;
  const std::size_t bytes = payload_bytes(request);
  const std::size_t each = options_.payload_bytes / options_.members.size();
  const bool fits = bytes > 0 && bytes <= each && payload_bytes_ <= each - bytes;
  return fits && payloads_ < kMostPayloads;
}

Status Member::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                      InlinePayload payload) {
  if (closed()) return applier_.closed();
  payload_bytes_ += payload.bytes.size();
  payloads_ += payload.whole ? 1 : 0;
  Announcement told;
  const Status status = own_.submit(request, ticket, now, std::move(payload), told);
  if (status.ok() || told.duplicate) subtree_.add(std::move(told));
  if (status.ok()) watch_.submitted(request, now);
  return status;
}

Status Member::join(std::uint64_t ticket) {
  if (closed()) return applier_.closed();
  RONDE_RETURN_IF_ERROR(own_.join(ticket));
  subtree_.join();
  return {};
}

void Member::leave(std::string_view why) {
  constexpr std::size_t kMost = 512;  // a few lines, in a frame that carries more
  const std::string in_flight = why.empty() ? own_.describe_not_awaited() : std::string();
  leave(options_.rank, why.empty() ? in_flight : why.substr(0, kMost));
}

void Member::leave(int rank, std::string_view why) {
  if (closed()) return;
  if (coordinator_) return coordinator_->close_set(rank, why);
  TickFrame& tick = sender_.tick();
  if (tick.leaver >= 0) return;
  tick.leaver = rank;
  tick.farewell = why;
}

std::vector<std::string> Member::describe_pending() const {
  std::vector<std::string> lines;
  own_.for_each([&](const OpKey& key, const OwnOperation& operation) {
    lines.push_back(label(operation.request.kind, key));
    const std::vector<int> missing = subtree_.lacking(key);
    if (missing.empty()) return;
    lines.back() +=
        fmt::format(": not yet heard from or through ranks {}", join_text(missing, ", "));
  });
  return lines;
}

AgreementStats Member::stats() const noexcept {
  AgreementStats stats = applier_.stats();
  stats.frames_sent = sender_.taken();
  return stats;
}

// Frames.

Status Member::on_frame(int from, std::span<const std::byte> frame, TimePoint now) {
  RONDE_ASSIGN_OR_RETURN(const FrameKind kind, reader_.read(frame));
  if (kind == FrameKind::kTick) {
    const auto& children = node_.children;
    const auto child = std::find(children.begin(), children.end(), from);
    if (child == children.end()) return out_of_protocol(fmt::format("rank {} is no child", from));
    return from_child(static_cast<int>(child - children.begin()) + 1, now);
  }
  if (node_.is_root() || from != node_.parent) {
    return out_of_protocol(fmt::format("rank {} is not the parent", from));
  }
  return from_parent(kind, frame, now);
}

Status Member::from_child(int source, TimePoint now) {
  TickFrame& tick = reader_.tick;
  RONDE_RETURN_IF_ERROR(subtree_.check(tick, source, applier_.sequence()));
  RONDE_RETURN_IF_ERROR(check_facts(tick, source));
  subtree_.take(tick, source);
  for (const Overdue& overdue : tick.overdue) note(overdue, now);
  if (tick.leaver >= 0) leave(tick.leaver, tick.farewell);
  if (tick.query != 0) {
    watch_.answer(static_cast<std::size_t>(source) - 1, tick.facts);
    after_answer(now);
  }
  applier_.forget_acked();
  return {};
}

Status Member::from_parent(FrameKind kind, std::span<const std::byte> frame, TimePoint now) {
  if (kind == FrameKind::kBatch) {
    const BatchFrame& batch = reader_.batch;
    RONDE_RETURN_IF_ERROR(applier_.check(batch));
    sender_.forward(frame);
    if (batch.changes_cache())
      sender_.send_tick(applier_.sequence());  // its bits mean the old slots
    applier_.apply(batch);
  } else if (kind == FrameKind::kQuery) {
    if (watch_.asks() || reader_.query.query == 0) return out_of_protocol("a second query");
    sender_.forward(frame);
    answer(reader_.query, now);
  } else {
    sender_.forward(frame);
    std::move(reader_.warning.texts.begin(), reader_.warning.texts.end(),
              std::back_inserter(warnings_));
  }
  return {};
}

void Member::agree() {
  if (coordinator_) coordinator_->agree();
}

void Member::take_frames(std::vector<OutFrame>& out) {
  agree();
  payload_bytes_ = 0;
  payloads_ = 0;
  sender_.send_tick(applier_.sequence());
  sender_.take(out);
}

void Member::take_batches(std::vector<Batch>& out) {
  agree();
  applier_.take_batches(out);
}

void Member::take_warnings(std::vector<std::string>& out) {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(out));
  warnings_.clear();
}

// Operations that do not end.

Status Member::check_facts(const TickFrame& tick, int source) const {
  if (tick.query != 0 && !watch_.expects(static_cast<std::size_t>(source) - 1, tick.query)) {
    return out_of_protocol("an answer without a query");
  }
  for (const StallFact& fact : tick.facts) {
    if (fact.blocked.rank >= 0 && !node_.is_member(fact.blocked.rank)) {
      return out_of_protocol("an operation of a rank outside the set");
    }
  }
  return {};
}

void Member::declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                             TimePoint now) {
  for (const Overdue& overdue : watch_.declare_blocked(tickets, blocked)) note(overdue, now);
}

void Member::on_time(TimePoint now) {
  for (const Overdue& overdue : watch_.on_time(now)) note(overdue, now);
}

/// Reports an overdue operation to the root.
void Member::note(const Overdue& overdue, TimePoint now) {
  if (!coordinator_) return sender_.tick().overdue.push_back(overdue);
  watch_.note(overdue, now);
  start_query(now);
}

void Member::start_query(TimePoint now) {
  const std::optional<QueryFrame> query = watch_.next_query();
  if (!query) return;
  sender_.send_down(*query);
  answer(*query, now);
}

/// Answers a query, once the children have.
void Member::answer(const QueryFrame& query, TimePoint now) {
  watch_.begin(query, own_.facts(query.keys, now), node_.children.size());
  after_answer(now);
}

void Member::after_answer(TimePoint now) {
  if (!watch_.answered()) return;
  auto [query, facts] = watch_.finish();
  if (coordinator_) {
    judge(std::move(facts), now);
    start_query(now);
    return;
  }
  TickFrame& tick = sender_.tick();
  tick.query = query;
  tick.facts = std::move(facts);
}

void Member::judge(std::vector<StallFact> facts, TimePoint now) {
  std::erase_if(facts, [&](const StallFact& fact) {  // its last reports came before the answers
    return fact.kind < 0 || fact.missing.empty() || subtree_.is_complete(fact.key);
  });
  for (StallFact& fact : facts) fact.last_use = subtree_.last_use(fact.key);
  coordinator_->agree();
  OperationWatch::Verdict verdict = watch_.judge(std::move(facts), now);
  for (BatchItem& failure : verdict.failures) coordinator_->fail(std::move(failure));
  coordinator_->close_batch();
  if (verdict.warnings.empty()) return;
  sender_.send_down(WarningFrame{verdict.warnings});
  warnings_.insert(warnings_.end(), verdict.warnings.begin(), verdict.warnings.end());
}

}  // namespace ronde
