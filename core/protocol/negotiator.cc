#include "core/protocol/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace ronde {
namespace {

/// In one tick of a rank. A report is larger than a bit, and fusion serves many operations better.
constexpr std::size_t kMostPayloads = 16;

}  // namespace

Negotiator::Negotiator(NegotiatorOptions options)
    : options_(std::move(options)),
      place_(place_in_tree(options_.rank, options_.members, options_.hosts)),
      spans_hosts_(std::adjacent_find(options_.hosts.begin(), options_.hosts.end(),
                                      std::not_equal_to<>()) != options_.hosts.end()),
      member_(options_.rank, options_.members, options_.cache_capacity),
      watch_(options_.rank,
             {.warning = options_.stall_warning,
              .error = options_.stall_error,
              .cycle = options_.cycle_watch},
             member_.own()),
      coordinator_(place_, member_, watch_, options_.payloads) {}

bool Negotiator::wants_payload(const Request& request) const noexcept {
  if (!spans_hosts_ || options_.payloads == nullptr || !may_carry_payload(request)) return false;
  const std::size_t bytes = payload_bytes(request);
  const std::size_t each = options_.payload_bytes / options_.members.size();
  const bool fits = bytes > 0 && bytes <= each && payload_bytes_ <= each - bytes;
  return fits && payloads_ < kMostPayloads;
}

Status Negotiator::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                          InlinePayload payload) {
  if (closed()) return coordinator_.closed();
  payload_bytes_ += payload.bytes.size();
  payloads_ += payload.whole ? 1 : 0;
  Announcement told;
  const Status status = member_.submit(request, ticket, now, std::move(payload), told);
  if (status.ok() || told.duplicate) coordinator_.submitted(std::move(told));
  if (status.ok()) watch_.submitted(request, now);
  return status;
}

Status Negotiator::join(std::uint64_t ticket, TimePoint) {
  if (closed()) return coordinator_.closed();
  RONDE_RETURN_IF_ERROR(member_.join(ticket));
  coordinator_.joined();
  return {};
}

void Negotiator::leave(TimePoint, std::string_view why) {
  constexpr std::size_t kMost = 512;  // a few lines, in a frame that carries more
  const std::string in_flight = why.empty() ? member_.describe_not_awaited() : std::string();
  coordinator_.leave(options_.rank, why.empty() ? in_flight : why.substr(0, kMost));
}

Status Negotiator::on_frame(int from, std::span<const std::byte> frame, TimePoint now) {
  RONDE_ASSIGN_OR_RETURN(const FrameKind kind, reader_.read(frame));
  if (kind == FrameKind::kTick) {
    const auto& children = place_.children;
    const auto child = std::find(children.begin(), children.end(), from);
    if (child == children.end()) return out_of_protocol(fmt::format("rank {} is no child", from));
    const int source = static_cast<int>(child - children.begin()) + 1;
    RONDE_RETURN_IF_ERROR(coordinator_.check(reader_.tick, source));
    RONDE_RETURN_IF_ERROR(check_facts(reader_.tick, source));
    apply_tick(reader_.tick, source, now);
    return {};
  }
  if (place_.is_root() || from != place_.parent) {
    return out_of_protocol(fmt::format("rank {} is not the parent", from));
  }
  return from_parent(kind, frame, now);
}

Status Negotiator::from_parent(FrameKind kind, std::span<const std::byte> frame, TimePoint now) {
  if (kind == FrameKind::kBatch) return coordinator_.take(reader_.batch, frame);
  if (kind == FrameKind::kQuery) {
    if (watch_.asks() || reader_.query.query == 0) return out_of_protocol("a second query");
    coordinator_.forward(frame);
    answer(reader_.query, now);
  } else {
    coordinator_.forward(frame);
    std::move(reader_.warning.texts.begin(), reader_.warning.texts.end(),
              std::back_inserter(warnings_));
  }
  return {};
}

Status Negotiator::check_facts(const TickFrame& tick, int source) const {
  if (tick.query != 0 && !watch_.expects(static_cast<std::size_t>(source) - 1, tick.query)) {
    return out_of_protocol("an answer without a query");
  }
  for (const StallFact& fact : tick.facts) {
    if (fact.blocked.rank >= 0 && !member_.is_member(fact.blocked.rank)) {
      return out_of_protocol("an operation of a rank outside the set");
    }
  }
  return {};
}

void Negotiator::apply_tick(TickFrame& tick, int source, TimePoint now) {
  coordinator_.take_reports(tick, source);
  for (const Overdue& overdue : tick.overdue) note(overdue, now);
  coordinator_.take_changes(tick, source);
  if (tick.query != 0) {
    watch_.answer(static_cast<std::size_t>(source) - 1, tick.facts);
    after_answer(now);
  }
  coordinator_.forget_acked();
}

// Operations that do not end.

void Negotiator::declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                                 TimePoint now) {
  for (const Overdue& overdue : watch_.declare_blocked(tickets, blocked)) note(overdue, now);
}

void Negotiator::on_time(TimePoint now) {
  for (const Overdue& overdue : watch_.on_time(now)) note(overdue, now);
}

void Negotiator::take_warnings(std::vector<std::string>& out) {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(out));
  warnings_.clear();
}

/// Reports an overdue operation to the root.
void Negotiator::note(const Overdue& overdue, TimePoint now) {
  if (!place_.is_root()) {
    coordinator_.next_tick().open().overdue.push_back(overdue);
    return;
  }
  watch_.note(overdue, now);
  start_query(now);
}

void Negotiator::start_query(TimePoint now) {
  const std::optional<QueryFrame> query = watch_.next_query();
  if (!query) return;
  coordinator_.send_down(*query);
  answer(*query, now);
}

/// Answers a query, once the children have.
void Negotiator::answer(const QueryFrame& query, TimePoint now) {
  watch_.begin(query, member_.facts(query.keys, now), place_.children.size());
  after_answer(now);
}

void Negotiator::after_answer(TimePoint now) {
  if (!watch_.answered()) return;
  auto [query, facts] = watch_.finish();
  if (place_.is_root()) {
    judge(std::move(facts), now);
    start_query(now);
    return;
  }
  TickFrame& tick = coordinator_.next_tick().open();
  tick.query = query;
  tick.facts = std::move(facts);
}

void Negotiator::judge(std::vector<StallFact> facts, TimePoint now) {
  std::erase_if(facts, [&](const StallFact& fact) {  // its last reports came before the answers
    return fact.kind < 0 || fact.missing.empty() || coordinator_.is_complete(fact.key);
  });
  for (StallFact& fact : facts) fact.last_use = coordinator_.last_use(fact.key);
  coordinator_.agree();
  OperationWatch::Verdict verdict = watch_.judge(std::move(facts), now);
  for (BatchItem& failure : verdict.failures) coordinator_.fail(std::move(failure));
  coordinator_.close_batch();
  if (verdict.warnings.empty()) return;
  coordinator_.send_down(WarningFrame{verdict.warnings});
  warnings_.insert(warnings_.end(), verdict.warnings.begin(), verdict.warnings.end());
}

void Negotiator::take_frames(std::vector<OutFrame>& out) {
  coordinator_.agree();
  payload_bytes_ = 0;
  payloads_ = 0;
  coordinator_.take_frames(out);
}

void Negotiator::take_batches(std::vector<Batch>& out) {
  coordinator_.agree();
  coordinator_.take_batches(out);
}

}  // namespace ronde
