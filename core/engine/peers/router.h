// Frames from other ranks, and the parts of the engine that they are for.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/frames/frame.h"
#include "core/engine/peers/key_value_exchange.h"
#include "core/engine/peers/membership.h"
#include "core/engine/peers/messages.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/queues.h"

namespace ronde {

/// Takes a message of another rank that compares clocks, and may return an answer.
using ClockHandler =
    std::function<std::optional<std::vector<std::byte>>(std::span<const std::byte>)>;

/// Gives each frame to the part of the engine that it is for.
/// Threads: the driving thread.
class Router final : public ChannelSink {
 public:
  /// The receivers of frames, and `sender` for answers. `on_clock` may be empty. All outlive the
  /// router.
  Router(DrivingRole& role, FrameSender& sender, Queues& queues, KeyValueExchange& exchange,
         Messages& messages, Membership& membership, ClockHandler on_clock)
      : role_(role),
        sender_(sender),
        queues_(queues),
        exchange_(exchange),
        messages_(messages),
        membership_(membership),
        on_clock_(std::move(on_clock)) {}

  /// A frame that makes no sense breaks the job.
  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;

 private:
  Status route(int from, std::span<const std::byte> frame);
  void on_clock(int from, std::span<const std::byte> message);

  DrivingRole& role_;
  FrameSender& sender_;
  Queues& queues_;
  KeyValueExchange& exchange_;
  Messages& messages_;
  Membership& membership_;
  const ClockHandler on_clock_;
};

}  // namespace ronde
