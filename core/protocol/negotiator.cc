// Wires the parts of a negotiation: frames in, events between the parts, frames out.
#include "core/protocol/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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
      frames_(place_),
      batcher_(
          place_, state_, matching_, stalls_,
          [this](const BatchFrame& batch) { frames_.send_down(batch); },
          [this](const Report& report) { return result_of(report); }),
      inquiry_(options_.rank, options_.cycle_watch,
               {place_, state_, matching_, stalls_, batcher_, frames_}) {}

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
  inquiry_.submitted(request, now);
  return {};
}

Status Negotiator::join(std::uint64_t ticket, TimePoint) {
  return closed() ? batcher_.closed() : matching_.join(ticket);
}

void Negotiator::leave(TimePoint, std::string_view why) {
  constexpr std::size_t kMost = 512;  // a few lines, in a frame that carries more
  const std::string in_flight = why.empty() ? matching_.describe_not_awaited() : std::string();
  note_leaver(options_.rank, why.empty() ? in_flight : why.substr(0, kMost));
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
    frames_.forward(frame);
    if (reader_.batch.changes_cache()) {  // the draft's bits mean the slots as they are
      frames_.send_up(state_.draft, batcher_.sequence());
    }
    batcher_.apply(reader_.batch);
  } else if (kind == FrameKind::kQuery) {
    RONDE_RETURN_IF_ERROR(inquiry_.check(reader_.query));
    frames_.forward(frame);
    inquiry_.answer(reader_.query, now);
  } else {
    frames_.forward(frame);
    inquiry_.take_warnings(reader_.warning);
  }
  return {};
}

Status Negotiator::check_tick(const TickFrame& tick, int source) const {
  RONDE_RETURN_IF_ERROR(matching_.check_tick(tick, source, batcher_.sequence()));
  RONDE_RETURN_IF_ERROR(inquiry_.check(tick, source));
  if (tick.leaver >= 0 && !matching_.is_member(tick.leaver)) {
    return out_of_protocol("a rank outside the set leaves");
  }
  return {};
}

void Negotiator::apply_tick(TickFrame& tick, int source, TimePoint now) {
  matching_.apply_reports(tick, source);
  inquiry_.take_reports(tick, now);
  if (tick.last_joined >= 0) state_.aggregator.join(source, tick.last_joined);
  if (tick.leaver >= 0) note_leaver(tick.leaver, tick.farewell);
  matching_.report_completed();
  inquiry_.take_answer(tick, source, now);
  matching_.forget_acked(batcher_.sequence());
}

void Negotiator::take_frames(std::vector<OutFrame>& out) {
  batcher_.agree();
  frames_.send_up(state_.draft, batcher_.sequence());
  payload_bytes_ = 0;
  payloads_ = 0;
  frames_.take(out);
}

void Negotiator::take_batches(std::vector<Batch>& out) {
  batcher_.agree();
  batcher_.take(out);
}

std::size_t Negotiator::pending() const {
  return state_.own.size() + (matching_.has_joined() ? 1 : 0);
}

NegotiatorStats Negotiator::stats() const noexcept {
  NegotiatorStats stats = batcher_.stats();
  stats.frames_sent = frames_.taken();
  return stats;
}

}  // namespace ronde
