// Frames from other ranks, and the parts of the engine that they are for.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/driving/driving_role.h"
#include "core/engine/peers/frame.h"
#include "core/engine/peers/key_value_exchange.h"
#include "core/engine/peers/membership.h"
#include "core/engine/peers/messages.h"
#include "core/engine/peers/outbox.h"
#include "core/engine/queues/launch_coordinator.h"
#include "core/engine/queues/queues.h"

namespace ronde {

/// Takes a message that compares clocks; gives the answer, where it has one.
using ClockHandler =
    std::function<std::optional<std::vector<std::byte>>(std::span<const std::byte>)>;

/// Gives each frame to the part of the engine that it is for.
/// Threads: the driving thread.
class Router final : public ChannelSink {
 public:
  /// Where frames go. All outlive the router.
  struct Parts {
    DrivingRole& role;
    Outbox& outbox;
    Queues& queues;
    KeyValueExchange& exchange;
    Messages& messages;
    LaunchCoordinator& launches;
    Membership& membership;
  };

  /// `on_clock` may be empty.
  Router(const Parts& parts, ClockHandler on_clock)
      : parts_(parts), on_clock_(std::move(on_clock)) {}

  /// A frame that makes no sense breaks the job.
  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;

  /// A queue was started: gives it the frames that came before.
  void on_started(SetQueue& queue);
  /// A queue was stopped: later frames for it are dropped. Their senders did not know yet.
  void on_stopped(SetId id) { stopped_.insert(id); }

 private:
  Status route(int from, std::span<const std::byte> frame);
  Status route_negotiation(int from, SetId id, std::span<const std::byte> payload);
  void answer_clock(int from, std::span<const std::byte> payload);

  const Parts parts_;
  const ClockHandler on_clock_;
  std::map<SetId, std::vector<std::pair<int, std::vector<std::byte>>>> early_;
  std::set<SetId> stopped_;
};

}  // namespace ronde
