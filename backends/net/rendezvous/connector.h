// Makes authenticated connections between ranks. It runs many handshakes at once, on accepted and
// dialed connections, in one poll loop of the calling thread. An unauthenticated peer costs one
// bounded entry for two seconds at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/handshake.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

inline constexpr std::chrono::seconds kHandshakeLimit{2};

/// The result of Connector::next.
struct ConnectorEvent {
  enum class Kind : std::uint8_t {
    kAdmitted,  ///< `rank` is authenticated; `stream` and `peer` are its.
    kReadable,  ///< A watched rank sent something, or is gone.
    kTimeout,
  };
  Kind kind = Kind::kTimeout;
  int rank = -1;
  Stream stream;
  Introduction peer;
};

/// Connects this rank with others. Threads: one.
class Connector {
 public:
  /// `party` outlives it. `greeting` is sent on every accepted connection; on Unix sockets those
  /// of this user alone are accepted.
  explicit Connector(const Party& party, std::string greeting = {});
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Accepts connections from `listener` from now on.
  void listen(FileDescriptor listener) { listener_ = std::move(listener); }

  /// Connects to `rank`, again and again until it is admitted.
  void dial(int rank, const Endpoint& endpoint);

  /// Reports when `fd`, the admitted connection of `rank`, becomes readable.
  void watch(int rank, int fd) { watched_[rank] = fd; }
  void unwatch(int rank) { watched_.erase(rank); }

  /// The next event. Blocks until there is one or the limit has passed.
  /// Errors: kVersionMismatch where an authenticated peer runs another version; kUnavailable.
  Result<ConnectorEvent> next(const WaitLimit& limit);

  /// Why the last attempt to reach `rank` failed; empty where none did.
  [[nodiscard]] std::string last_failure(int rank) const;

 private:
  struct Pending;
  struct Dial {
    Endpoint endpoint;
    TimePoint next_attempt;
    Duration backoff;
    bool in_progress = false;
    std::string failure;
  };

  using Outcome = Result<std::optional<ConnectorEvent>>;

  void accept_all();
  Status add_pending(FileDescriptor socket, int dialed_rank);
  void start_due_dials();
  void fail_dial(int rank, const std::string& why);
  void expire();
  [[nodiscard]] TimePoint next_due(TimePoint deadline) const;
  void poll_once(TimePoint deadline, int cancel_fd);
  Outcome serve_ready();
  Outcome serve(std::list<Pending>::iterator pending);
  [[nodiscard]] ConnectorEvent admit(Pending& pending);

  const Party& party_;
  const std::string greeting_;
  FileDescriptor listener_;
  std::list<Pending> pending_;
  std::map<int, Dial> dials_;
  std::map<int, int> watched_;
  std::vector<int> readable_;  // watched ranks found readable by the last poll
  bool acceptable_ = false;    // the last poll found the listener readable
};

}  // namespace ronde::net
