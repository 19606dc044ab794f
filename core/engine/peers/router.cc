#include "core/engine/peers/router.h"

#include <fmt/format.h>

namespace ronde {

void Router::on_frame(int from, std::span<const std::byte> frame) {
  const Status status = route(from, frame);
  if (status.ok()) return;
  membership_.abort().abort(
      {Code::kInternal,
       fmt::format("rank {} sent a frame that makes no sense: {}", from, status.message())});
}

Status Router::route(int from, std::span<const std::byte> frame) {
  const auto header = read_header(frame);
  if (!header) return {Code::kInvalidArgument, "unknown frame kind"};
  const auto payload = frame.subspan(sizeof(FrameHeader));
  switch (header->kind) {
    case EnginePart::kNegotiation:
      return queues_.on_frame(from, static_cast<SetId>(header->id), payload);
    case EnginePart::kExchange:
      RONDE_RETURN_IF_ERROR(exchange_.on_frame(from, header->id, payload));
      role_.notify_callers();
      return {};
    case EnginePart::kMessage:
      return messages_.on_frame(from, payload);
    case EnginePart::kClock:
      on_clock(from, payload);
      return {};
    case EnginePart::kLaunch:
      queues_.launches().order(from, static_cast<SetId>(header->id));
      return {};
    case EnginePart::kFailure:
      return membership_.on_failure_frame(from, payload);
  }
  return {};
}

void Router::on_clock(int from, std::span<const std::byte> message) {
  auto answer = on_clock_ ? on_clock_(message) : std::nullopt;
  if (!answer) return;
  sender_.add(from, *std::move(answer));
  sender_.send(EnginePart::kClock, 0);
}

void Router::on_peer_lost(int, const Status& reason) { membership_.abort().abort(reason); }

void Router::on_peer_left(int rank, const Status& reason) {
  exchange_.on_left(rank, reason);
  membership_.on_left(rank, reason);
}

}  // namespace ronde
