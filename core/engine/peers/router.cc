#include "core/engine/peers/router.h"

#include <fmt/format.h>

namespace ronde {

void Router::on_frame(int from, std::span<const std::byte> frame) {
  const Status status = route(from, frame);
  if (status.ok()) return;
  parts_.membership.fail(
      Status(Code::kInternal,
             fmt::format("rank {} sent a frame that makes no sense: {}", from, status.message())));
}

Status Router::route(int from, std::span<const std::byte> frame) {
  const auto header = read_header(frame);
  if (!header) return {Code::kInvalidArgument, "unknown frame kind"};
  const auto payload = frame.subspan(sizeof(FrameHeader));
  switch (header->kind) {
    case EnginePart::kNegotiation:
      return route_negotiation(from, static_cast<SetId>(header->id), payload);
    case EnginePart::kExchange:
      RONDE_RETURN_IF_ERROR(parts_.exchange.on_frame(from, header->id, payload));
      parts_.role.notify_callers();
      return {};
    case EnginePart::kMessage:
      return parts_.messages.on_frame(from, payload);
    case EnginePart::kClock:
      answer_clock(from, payload);
      return {};
    case EnginePart::kLaunch:
      parts_.launches.order(from, static_cast<SetId>(header->id));
      return {};
    case EnginePart::kFailure:
      return parts_.membership.on_failure_frame(from, payload);
  }
  return {};
}

Status Router::route_negotiation(int from, SetId id, std::span<const std::byte> payload) {
  if (SetQueue* const queue = parts_.queues.driven(id)) {
    return queue->negotiator().on_frame(from, payload, now());
  }
  // The sender has added the set before this rank has.
  if (!stopped_.contains(id)) {
    early_[id].emplace_back(from, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  return {};
}

void Router::answer_clock(int from, std::span<const std::byte> payload) {
  if (!on_clock_) return;
  auto answer = on_clock_(payload);
  if (!answer) return;
  parts_.outbox.add(from, std::move(*answer));
  parts_.outbox.send(EnginePart::kClock, 0);
}

void Router::on_started(SetQueue& queue) {
  const auto early = early_.extract(queue.id());
  if (early.empty()) return;
  for (const auto& [from, payload] : early.mapped()) {
    const Status status = queue.negotiator().on_frame(from, payload, now());
    if (!status.ok()) parts_.membership.fail_now(status);
  }
}

void Router::on_peer_lost(int, const Status& reason) { parts_.membership.fail_now(reason); }

void Router::on_peer_left(int rank, const Status& reason) {
  parts_.exchange.on_left(rank, reason);
  parts_.membership.on_left(rank, reason);
}

}  // namespace ronde
