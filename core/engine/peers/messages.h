// Sends and receives of this rank: point-to-point messages that waiters see as operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/engine/frames/frame.h"
#include "core/engine/peers/point_to_point.h"
#include "core/engine/queues/task_queue.h"

namespace ronde {

/// Runs the messages of this rank as operations.
/// Threads: the driving thread, unless a member says otherwise.
class Messages {
 public:
  /// Both outlive the messages.
  Messages(TaskQueue& tasks, FrameSender& sender)
      : tasks_(tasks), sender_(sender), matching_(sender.topology().rank) {}

  /// Starts a send; `data` stays valid until the operation is done. `type`: as PointToPoint's.
  /// Threads: any. Blocks: never.
  OperationPtr send(int to, std::int64_t tag, std::span<const std::byte> data,
                    const std::string& type = {});
  /// Starts a receive; `data` and `message` (may be null) stay valid until the operation is done.
  /// `type`: as PointToPoint's. Threads: any. Blocks: never.
  OperationPtr recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                    const std::string& type = {});

  /// Takes in the payload of a frame. Errors: kInvalidArgument where it is malformed.
  Status on_frame(int from, std::span<const std::byte> payload);
  /// Fails the messages that need `rank`, which has left.
  void on_left(int rank, const Status& reason);
  /// Ends all operations with `reason`.
  void fail_all(const Status& reason);

 private:
  void flush();
  void finish_done();

  TaskQueue& tasks_;
  FrameSender& sender_;
  PointToPoint matching_;
  std::vector<FinishedMessage> done_;  // reused
};

}  // namespace ronde
