// Frames from this rank's engine to the engines of other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/engine/peers/frame.h"
#include "core/ports/control_channel.h"
#include "core/protocol/negotiator.h"

namespace ronde {

/// Sends frames to other engines, each with the header of the part that it is for.
/// Threads: the driving thread.
class Outbox {
 public:
  /// `channel` outlives the outbox. `on_error` gets what broke the channel. The channel reports
  /// ranks that are lost or have left by itself, so frames to them are dropped.
  Outbox(ControlChannel& channel, std::function<void(const Status&)> on_error)
      : channel_(channel), on_error_(std::move(on_error)) {}

  /// Adds a frame's payload for the next send().
  void add(int to, std::vector<std::byte> payload) { frames_.push_back({to, std::move(payload)}); }
  /// As add(), for parts that append all their frames.
  std::vector<OutFrame>& frames() noexcept { return frames_; }
  /// Sends all frames added since the last call. Blocks: never.
  void send(EnginePart kind, std::uint64_t id) {
    for (const OutFrame& frame : frames_) {
      const Status status =
          channel_.send(frame.to, make_frame(buffer_, {.kind = kind, .id = id}, frame.bytes));
      if (!status.ok() && status.code() != Code::kRankFailure) on_error_(status);
    }
    frames_.clear();
  }

 private:
  ControlChannel& channel_;
  const std::function<void(const Status&)> on_error_;
  std::vector<OutFrame> frames_;
  std::vector<std::byte> buffer_;  // reused
};

}  // namespace ronde
