// Sends and receives of this rank: point-to-point messages that waiters see as operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/driving/driving_role.h"
#include "core/engine/driving/intake.h"
#include "core/engine/peers/outbox.h"
#include "core/engine/peers/point_to_point.h"
#include "core/engine/records/flight_ring.h"
#include "core/engine/records/meter.h"

namespace ronde {

/// Runs the messages of this rank as operations.
/// Threads: the driving thread, unless a member says otherwise.
class Messages {
 public:
  /// What the messages use. All outlive them.
  struct Parts {
    DrivingRole& role;
    Intake& intake;
    Outbox& outbox;
    FlightRing& flights;
    Meter& meter;
  };

  Messages(int rank, const Parts& parts) : parts_(parts), matching_(rank) {}

  /// Starts a send; `data` stays valid until the operation is done. Threads: any. Blocks: never.
  OperationPtr send(int to, std::int64_t tag, std::span<const std::byte> data);
  /// Starts a receive; `data` and `message` (may be null) stay valid until the operation is done.
  /// Threads: any. Blocks: never.
  OperationPtr recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message);

  /// Takes in the payload of a frame. Errors: kInvalidArgument where it is malformed.
  Status on_frame(int from, std::span<const std::byte> payload);
  /// Fails the messages that need `rank`, which has left.
  void on_left(int rank, const Status& reason);
  /// Ends all operations with `reason`.
  void fail_all(const Status& reason);

 private:
  void flush();
  void finish_done();

  const Parts parts_;
  PointToPoint matching_;
  std::vector<FinishedMessage> done_;  // reused
};

}  // namespace ronde
