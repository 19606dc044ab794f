// Wires the parts of a negotiation: frames in, events between the parts, frames out.
#include "core/protocol/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
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
      state_(options_.rank, place_, options_.cache_capacity),
      matching_(options_.rank, options_.members, place_, state_),
      stalls_(options_.stall_warning, options_.stall_error, state_.own),
      deadlocks_(options_.rank, options_.cycle_watch, state_.own),
      batcher_(
          place_, state_, matching_, stalls_, [this](const BatchFrame& batch) { send_down(batch); },
          [this](const Report& report) { return result_of(report); }) {}

bool Negotiator::wants_payload(const Request& request) const noexcept {
  if (!spans_hosts_ || options_.payloads == nullptr || !may_carry_payload(request)) return false;
  const std::size_t bytes = payload_bytes(request);
  const std::size_t each = options_.payload_bytes / options_.members.size();
  const bool fits = bytes > 0 && bytes <= each && payload_bytes_ <= each - bytes;
  return fits && payloads_ < kMostPayloads;
}

std::vector<std::byte> Negotiator::result_of(const Report& report) const {
  if (options_.payloads == nullptr) return {};
  return combine(report.payload, *report.request, options_.members, *options_.payloads);
}

Status Negotiator::submit(const Request& request, std::uint64_t ticket, TimePoint now,
                          InlinePayload payload) {
  if (closed()) return batcher_.closed();
  payload_bytes_ += payload.bytes.size();
  payloads_ += payload.whole ? 1 : 0;
  RONDE_RETURN_IF_ERROR(matching_.submit(request, ticket, now, std::move(payload)));
  stalls_.submitted(now, state_.own.size() == 1);
  deadlocks_.submitted(request, now);
  return {};
}

Status Negotiator::join(std::uint64_t ticket, TimePoint) {
  return closed() ? batcher_.closed() : matching_.join(ticket);
}

void Negotiator::declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                                 TimePoint now) {
  for (const Overdue& overdue : deadlocks_.declare_blocked(tickets, blocked)) {
    note_overdue(overdue, now);
  }
}

void Negotiator::leave(TimePoint, std::string_view why) {
  constexpr std::size_t kMost = 512;  // a few lines, in a frame that carries more
  note_leaver(options_.rank, why.substr(0, kMost));
}

void Negotiator::note_leaver(int rank, std::string_view why) {
  if (closed()) return;
  if (place_.is_root()) {
    batcher_.close_set(rank, why);
  } else if (state_.draft.frame.leaver < 0) {
    state_.draft.open().leaver = rank;
    state_.draft.open().farewell = why;
  }
}

Status Negotiator::on_frame(int from, std::span<const std::byte> frame, TimePoint now) {
  RONDE_ASSIGN_OR_RETURN(const FrameKind kind, reader_.read(frame));
  if (kind == FrameKind::kTick) {
    const auto& children = place_.children;
    const auto child = std::find(children.begin(), children.end(), from);
    if (child == children.end()) return out_of_protocol(fmt::format("rank {} is no child", from));
    const int source = static_cast<int>(child - children.begin()) + 1;
    RONDE_RETURN_IF_ERROR(check_tick(reader_.tick, source));
    apply_tick(reader_.tick, source, now);
    return {};
  }
  if (place_.is_root() || from != place_.parent) {
    return out_of_protocol(fmt::format("rank {} is not the parent", from));
  }
  return from_parent(kind, frame, now);
}

Status Negotiator::from_parent(FrameKind kind, std::span<const std::byte> frame, TimePoint now) {
  if (kind == FrameKind::kBatch) {
    RONDE_RETURN_IF_ERROR(batcher_.check(reader_.batch));
    forward(frame);
    if (Batcher::changes_cache(reader_.batch)) flush_tick();  // its bits mean the slots as they are
    batcher_.apply(reader_.batch);
  } else if (kind == FrameKind::kQuery) {
    if (stalls_.query().active() || reader_.query.query == 0) {
      return out_of_protocol("a second query");
    }
    forward(frame);
    answer_query(reader_.query, now);
  } else {
    forward(frame);
    warnings_.insert(warnings_.end(), reader_.warning.texts.begin(), reader_.warning.texts.end());
  }
  return {};
}

Status Negotiator::check_tick(const TickFrame& tick, int source) const {
  RONDE_RETURN_IF_ERROR(matching_.check_tick(tick, source, batcher_.sequence()));
  if (tick.query != 0 &&
      !stalls_.query().expects(static_cast<std::size_t>(source) - 1, tick.query)) {
    return out_of_protocol("an answer without a query");
  }
  for (const StallFact& fact : tick.facts) {
    if (fact.blocked.rank >= 0 && !matching_.is_member(fact.blocked.rank)) {
      return out_of_protocol("an operation of a rank outside the set");
    }
  }
  if (tick.leaver >= 0 && !matching_.is_member(tick.leaver)) {
    return out_of_protocol("a rank outside the set leaves");
  }
  return {};
}

void Negotiator::apply_tick(TickFrame& tick, int source, TimePoint now) {
  matching_.apply_reports(tick, source);
  for (const Overdue& overdue : tick.overdue) note_overdue(overdue, now);
  if (tick.last_joined >= 0) state_.aggregator.join(source, tick.last_joined);
  if (tick.leaver >= 0) note_leaver(tick.leaver, tick.farewell);
  matching_.report_completed();
  if (tick.query != 0) {
    stalls_.query().answer(static_cast<std::size_t>(source) - 1, tick.facts);
    after_answer(now);
  }
  matching_.forget_acked(batcher_.sequence());
}

void Negotiator::on_time(TimePoint now) {
  for (const Overdue& overdue : deadlocks_.on_time(now)) note_overdue(overdue, now);
  for (const Overdue& overdue : stalls_.on_time(now)) note_overdue(overdue, now);
}

TimePoint Negotiator::next_deadline() const {
  if (state_.own.size() == 0) return kForever;
  return std::min(stalls_.next_deadline(), deadlocks_.next_deadline());
}

void Negotiator::note_overdue(const Overdue& overdue, TimePoint now) {
  if (!place_.is_root()) {
    state_.draft.open().overdue.push_back(overdue);
    return;
  }
  stalls_.note(overdue, now);
  start_query(now);
}

void Negotiator::start_query(TimePoint now) {
  const std::optional<QueryFrame> query = stalls_.next_query();
  if (!query) return;
  deadlocks_.query_began(query->keys);
  send_down(*query);
  answer_query(*query, now);
}

void Negotiator::answer_query(const QueryFrame& query, TimePoint now) {
  std::vector<StallFact> facts = matching_.own_facts(query.keys, now);
  deadlocks_.complete_facts(facts, query.keys);
  stalls_.query().begin(query.query, std::move(facts), place_.children.size());
  after_answer(now);
}

void Negotiator::after_answer(TimePoint now) {
  if (!stalls_.query().complete()) return;
  const std::uint64_t id = stalls_.query().id();
  std::vector<StallFact> facts = stalls_.query().finish();
  if (place_.is_root()) {
    judge(std::move(facts), now);
    start_query(now);
    return;
  }
  state_.draft.open().query = id;
  state_.draft.open().facts = std::move(facts);
}

void Negotiator::judge(std::vector<StallFact> facts, TimePoint now) {
  std::erase_if(facts, [&](const StallFact& fact) {  // its last reports came before the answers
    return fact.kind < 0 || fact.missing.empty() || state_.aggregator.is_complete(fact.key);
  });
  batcher_.agree();
  DeadlockDetector::Finding found = deadlocks_.examine(facts, now);
  for (const OpKey& key : found.ask) stalls_.ask_about(key);
  if (!found.ask.empty()) facts.clear();  // judged when all is known
  for (BatchItem& failure : found.failures) batcher_.fail(std::move(failure));
  StallVerdict verdict = stalls_.judge(facts);
  for (BatchItem& failure : verdict.failures) batcher_.fail(std::move(failure));
  batcher_.close_batch();
  if (verdict.warnings.empty()) return;
  const WarningFrame warning{std::move(verdict.warnings)};
  send_down(warning);
  warnings_.insert(warnings_.end(), warning.texts.begin(), warning.texts.end());
}

void Negotiator::take_frames(std::vector<OutFrame>& out) {
  batcher_.agree();
  flush_tick();
  payload_bytes_ = 0;
  payloads_ = 0;
  frames_sent_ += frames_.size();
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

void Negotiator::take_batches(std::vector<Batch>& out) {
  batcher_.agree();
  batcher_.take(out);
}

void Negotiator::take_warnings(std::vector<std::string>& out) {
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(out));
  warnings_.clear();
}

std::size_t Negotiator::pending() const {
  return state_.own.size() + (matching_.has_joined() ? 1 : 0);
}

NegotiatorStats Negotiator::stats() const noexcept {
  NegotiatorStats stats = batcher_.stats();
  stats.frames_sent = frames_sent_;
  return stats;
}

void Negotiator::flush_tick() {
  if (state_.draft.is_empty) return;
  TickFrame& tick = state_.draft.frame;
  const auto first = std::find_if(tick.words.begin(), tick.words.end(),
                                  [](std::uint64_t word) { return word != 0; });
  tick.first_word = static_cast<std::uint32_t>(first - tick.words.begin());
  tick.words.erase(tick.words.begin(), first);
  if (tick.words.empty()) tick.first_word = 0;
  tick.acked = batcher_.sequence();
  writer_.write(tick, [&](std::span<const std::byte> bytes) {
    frames_.push_back({place_.parent, {bytes.begin(), bytes.end()}});
  });
  tick.clear();
  state_.draft.is_empty = true;
}

template <typename Frame>
void Negotiator::send_down(const Frame& frame) {
  writer_.write(frame, [&](std::span<const std::byte> bytes) { forward(bytes); });
}

void Negotiator::forward(std::span<const std::byte> frame) {
  for (const int child : place_.children) {
    frames_.push_back({child, {frame.begin(), frame.end()}});
  }
}

}  // namespace ronde
