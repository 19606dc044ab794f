// Tagged messages between two ranks, matched like MPI's. Short ones are sent at once. The receiver
// pulls long ones once it has posted its buffer. A state machine without threads or waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/engine/queues/operation.h"
#include "core/protocol/frames.h"

namespace ronde {

/// Receive from any rank.
inline constexpr int kAnySource = -1;

/// The message that a receive got; written when it is done.
struct Message {
  int source = -1;
  std::int64_t tag = 0;
  std::size_t bytes = 0;
};

/// How one send or receive ended.
struct FinishedMessage {
  OperationPtr operation;
  Status status;
};

/// All messages of one rank. Messages between two ranks with one tag arrive in the order sent.
/// Threads: one at a time.
class PointToPoint {
 public:
  /// `eager_bytes`: messages up to this length are sent without asking.
  explicit PointToPoint(int rank, std::size_t eager_bytes = std::size_t{64} << 10)
      : rank_(rank), eager_bytes_(eager_bytes) {}

  /// Starts sending; `data` must stay until the operation is done. `to` may be this rank. `type`:
  /// of the elements; a receive of another type fails. Empty: any.
  void send(int to, std::int64_t tag, std::span<const std::byte> data, OperationPtr operation,
            std::string type = {});
  /// Starts receiving; `data` and `message` (may be null) must stay until the operation is done.
  /// `type`: as of send().
  void recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
            OperationPtr operation, std::string type = {});
  /// Takes in a frame's payload. Errors: kInvalidArgument where it is malformed.
  Status on_frame(int from, std::span<const std::byte> payload);
  /// Fails what needs `rank`, which has left.
  void on_left(int rank, const Status& reason);
  /// Fails everything.
  void fail_all(const Status& reason);

  /// Appends frames to send, and operations that have ended.
  void take_frames(std::vector<OutFrame>& out);
  void take_finished(std::vector<FinishedMessage>& out);
  /// True if take_frames or take_finished would give anything.
  [[nodiscard]] bool has_output() const noexcept { return !frames_.empty() || !finished_.empty(); }

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

  void emit(int to, const Header& header, std::span<const std::byte> data = {});
  void arrive(Arrival arrival);
  void match(Receive receive, Arrival& arrival);
  static Status check_fit(const Receive& receive, const Arrival& arrival);
  void finish_receive(Receive& receive, int source, Status status = {});
  void ask(int from, std::uint64_t id, std::size_t offset);
  Status on_ask(int from, const Header& header);
  Status on_data(int from, const Header& header, std::span<const std::byte> data);

  const int rank_;
  const std::size_t eager_bytes_;
  std::uint64_t next_id_ = 1;
  std::list<Receive> posted_;
  std::list<Arrival> arrived_;
  std::map<std::uint64_t, Send> sending_;                       // by own id
  std::map<std::pair<int, std::uint64_t>, Receive> receiving_;  // by sender and its id
  std::vector<OutFrame> frames_;
  std::vector<FinishedMessage> finished_;
};

}  // namespace ronde
