// Tagged messages between two ranks, matched like MPI's. Short ones are sent at once. The receiver
// pulls long ones once it has posted its buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/engine/frames/frame.h"
#include "core/engine/queues/task_queue.h"
#include "core/ports/event_sink.h"

namespace ronde {

/// Receive from any rank.
inline constexpr int kAnySource = -1;

/// The message that a receive got; written when it is done.
struct Message {
  int source = -1;
  std::int64_t tag = 0;
  std::size_t bytes = 0;
};

/// The messages of this rank, which waiters see as operations. Those between two ranks with one tag
/// arrive in the order sent. Threads: the driving thread, unless a member says otherwise.
class Messages {
 public:
  /// `eager_bytes`: messages up to this length are sent without asking. The others outlive this;
  /// `events` may be null.
  Messages(TaskQueue& tasks, FrameSender& sender, const EventSwitch* events = nullptr,
           std::size_t eager_bytes = std::size_t{64} << 10)
      : tasks_(tasks), sender_(sender), events_(events), eager_bytes_(eager_bytes) {}

  /// Starts a send; `data` stays valid until the operation is done. `to` may be this rank. `type`:
  /// of the elements; a receive of another type fails. Empty: any. Threads: any. Blocks: never.
  OperationPtr send(int to, std::int64_t tag, std::span<const std::byte> data,
                    const std::string& type = {});
  /// Starts a receive; `data` and `message` (may be null) stay valid until the operation is done.
  /// `type`: as of send(). Threads: any. Blocks: never.
  OperationPtr recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                    const std::string& type = {});

  /// Takes in the payload of a frame. Errors: kInvalidArgument where it is malformed.
  Status on_frame(int from, std::span<const std::byte> payload);
  /// Fails the messages that need `rank`, which has left. What it has sent whole can be received.
  void on_left(int rank, const Status& reason);
  /// Ends all operations with `reason`.
  void fail_all(const Status& reason);

 private:
  struct Header;
  struct Receive {
    int from;
    std::int64_t tag;
    std::span<std::byte> data;
    Message* message;
    OperationPtr operation;
    std::string type;
    std::size_t received = 0;
    std::size_t expected = 0;
  };
  struct Arrival {  // a message without a receive yet
    int from;
    std::int64_t tag;
    std::uint64_t id;
    std::size_t bytes;
    std::string type;
    bool complete;                // `data` holds all of it
    std::vector<std::byte> data;  // empty where the sender keeps it
  };
  struct Send {
    int to;
    std::span<const std::byte> data;
    OperationPtr operation;
  };
  struct Ended {
    OperationPtr operation;
    Status status;
    int peer = -1;  ///< The other rank; -1: unknown.
  };

  void start(Send send, std::int64_t tag, const std::string& type);
  void start(Receive receive);
  [[nodiscard]] Status why_gone(int from) const;
  Status take_frame(int from, std::span<const std::byte> payload);
  /// Sends frames and ends the operations that are done.
  void flush();
  /// Adds the message to the timeline.
  void record(const Ended& message);
  void emit(int to, const Header& header, std::span<const std::byte> data = {});
  void arrive(Arrival arrival);
  void match(Receive receive, Arrival& arrival);
  static bool takes(const Receive& receive, const Arrival& arrival) noexcept {
    return receive.tag == arrival.tag &&
           (receive.from == kAnySource || receive.from == arrival.from);
  }
  static Status check_fit(const Receive& receive, const Arrival& arrival);
  void finish_receive(Receive& receive, int source, Status status = {});
  void ask(int from, std::uint64_t id, std::size_t offset);
  Status on_ask(int from, const Header& header);
  Status on_data(int from, const Header& header, std::span<const std::byte> data);

  TaskQueue& tasks_;
  FrameSender& sender_;
  const EventSwitch* const events_;
  const std::size_t eager_bytes_;
  std::uint64_t next_id_ = 1;
  std::list<Receive> posted_;
  std::list<Arrival> arrived_;
  std::map<std::uint64_t, Send> sending_;                       // by own id
  std::map<std::pair<int, std::uint64_t>, Receive> receiving_;  // by sender and its id
  std::vector<Ended> ended_;
  std::map<int, Status> left_;                    // ranks that have left, and why
  std::map<std::string, std::int64_t> recorded_;  // by track: the end of the last message
};

}  // namespace ronde
