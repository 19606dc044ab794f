#include "core/engine/peers/held_frames.h"

#include <utility>

#include "core/engine/peers/frame.h"

namespace ronde {

void HeldFrames::on_frame(int from, std::span<const std::byte> frame) {
  const auto header = read_header(frame);
  Status failure;
  if (header && header->kind == EnginePart::kFailure &&
      read_failure(frame.subspan(sizeof(FrameHeader)), failure).ok()) {
    abort_.abort(failure);
  }
  held_.emplace_back([from, bytes = std::vector(frame.begin(), frame.end())](ChannelSink& sink) {
    sink.on_frame(from, bytes);
  });
}

void HeldFrames::on_peer_lost(int rank, const Status& reason) {
  held_.emplace_back([rank, reason](ChannelSink& sink) { sink.on_peer_lost(rank, reason); });
}

void HeldFrames::on_peer_left(int rank, const Status& reason) {
  held_.emplace_back([rank, reason](ChannelSink& sink) { sink.on_peer_left(rank, reason); });
}

bool HeldFrames::deliver(ChannelSink& sink) {
  const auto held = std::exchange(held_, {});
  for (const auto& give : held) give(sink);
  return !held.empty();
}

}  // namespace ronde
