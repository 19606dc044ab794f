// Lets ranks of the job in and keeps everybody else out: drives many handshakes at once, on
// connections it accepts and on ones it makes, in one poll loop of the calling thread. A stranger
// costs one bounded entry for at most two seconds, whatever it sends or does not send.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/net/handshake.h"
#include "backends/net/socket.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

inline constexpr std::chrono::seconds kHandshakeLimit{2};

/// What Gate::next found.
struct GateEvent {
  enum class Kind : std::uint8_t {
    kAdmitted,  ///< `rank` has proved itself; `socket` and `peer` are its.
    kReadable,  ///< A watched rank sent something, or is gone.
    kTimeout,
  };
  Kind kind = Kind::kTimeout;
  int rank = -1;
  FileDescriptor socket;
  Introduction peer;
};

/// Threads: one.
class Gate {
 public:
  /// `party` outlives it. `greeting` is sent on every accepted Unix connection of this user.
  explicit Gate(const Party& party, std::string greeting = {});
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Accepts connections from `listener` from now on.
  void listen(FileDescriptor listener) { listener_ = std::move(listener); }

  /// Connects to `rank`, again and again until it is admitted.
  void dial(int rank, const Endpoint& endpoint);

  /// Reports when `fd`, the admitted connection of `rank`, becomes readable.
  void watch(int rank, int fd) { watched_[rank] = fd; }
  void unwatch(int rank) { watched_.erase(rank); }

  /// The next event. Blocks until there is one or the deadline passed.
  /// Errors: kVersionMismatch where an authenticated peer runs another version; kUnavailable.
  Result<GateEvent> next(TimePoint deadline);

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

  using Outcome = Result<std::optional<GateEvent>>;

  void accept_all();
  Status add_pending(FileDescriptor socket, int dialed_rank);
  void start_due_dials();
  void fail_dial(int rank, const std::string& why);
  void expire();
  [[nodiscard]] TimePoint next_due(TimePoint deadline) const;
  void poll_once(TimePoint deadline);
  Outcome serve_ready();
  Outcome serve(std::list<Pending>::iterator pending);
  [[nodiscard]] GateEvent admit(Pending& pending);

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
