// Makes authenticated connections between ranks. It runs many handshakes at once, on accepted and
// dialed connections, in one event loop of the calling thread. An unauthenticated peer costs one
// bounded entry for two seconds at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/socket.h"
#include "backends/net/connection/stream.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

inline constexpr std::chrono::seconds kHandshakeLimit{2};

/// The result of Connector::next.
struct ConnectorEvent {
  enum class Kind : std::uint8_t {
    kAdmitted,  ///< `rank` is authenticated; `stream` and `peer` are its.
    kReadable,  ///< A watched rank sent something, or is gone.
    kGivenUp,   ///< A dial has ended without a connection; `status` says why.
    kTimeout,
  };
  Kind kind = Kind::kTimeout;
  int rank = -1;
  Stream stream;
  Introduction peer;
  bool dialed = false;  ///< By this process; else accepted.
  Duration took{};      ///< Since the dial was ordered.
  std::shared_ptr<const Identity>
      identity;  ///< Of this process: for which one it was dialed or admitted.
  Status status;
};

/// A connection to make.
struct DialArgs {
  std::shared_ptr<const Identity> identity;  ///< Of this process.
  int rank = -1;                             ///< -1: any.
  std::vector<Endpoint> endpoints;           ///< Tried in turn, then again after a pause.
  TimePoint deadline = kForever;             ///< It is given up then.
  /// Where nobody listens for so long, the rank's process has ended. It is given up then.
  Duration refusal_limit = std::chrono::seconds(2);
  /// A rank that turns this one away counts as one that does not listen, and one of another secret
  /// ends the dial. Else a rank that does not answer has all the time: that is for the control
  /// channel to judge.
  bool rendezvous = false;
  GreetingReader read_greeting = {};  ///< Where the listener greets.
  Endpoint source = {};               ///< As Route::from.
  TimePoint ordered = now();
};

/// Connects this process with ranks. Threads: one.
class Connector {
 public:
  /// Accepts for one identity, which outlives it. `greeting` is sent on every accepted connection;
  /// on Unix sockets those of this user alone are accepted.
  explicit Connector(const Identity& identity, std::string greeting = {});
  /// Accepts for the identities that `lookup` finds, in a job of `ranks` ranks.
  Connector(IdentityLookup lookup, int ranks);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Accepts connections from `listener` too from now on.
  void listen(FileDescriptor listener);

  /// Connects again and again until the rank admits it, its process has ended or the deadline has
  /// passed.
  void dial(const DialArgs& args);

  /// Ends the dials of an identity.
  void forget_dials(const Identity& identity);

  /// Ranks that had no proof when they saw this process's: they have another secret.
  [[nodiscard]] const std::set<int>& unproven() const noexcept { return unproven_; }

  /// Reports when `fd`, the admitted connection of `rank`, becomes readable.
  void watch(int rank, int fd);
  void unwatch(int rank);

  /// The next event. Polls once at least. Blocks until there is one or the limit has passed.
  /// Errors: kVersionMismatch or kMismatch where an authenticated peer that dialed runs another
  /// version or has another mode of encryption; kResourceExhausted where no descriptor was left.
  Result<ConnectorEvent> next(const WaitLimit& limit);

  /// For the event loop of a caller that calls next() with a limit that has passed: once this
  /// becomes readable, or that time has come. Not valid() where no descriptor was left.
  [[nodiscard]] const FileDescriptor& events() const noexcept { return events_; }
  [[nodiscard]] TimePoint next_due(TimePoint deadline = kForever) const;

 private:
  struct Pending;
  using DialKey = std::pair<const Identity*, int>;
  struct Dial {
    /// The last one at an endpoint. One after a greeting outlives others: a rank that has given up
    /// only refuses.
    struct Failure {
      std::string text;
      bool explained = false;
    };

    explicit Dial(const DialArgs& wanted);

    [[nodiscard]] const Endpoint& endpoint() const { return args.endpoints[turn]; }
    /// True for an error that another attempt does not mend.
    [[nodiscard]] bool is_final(Code code) const;
    void fail(const Status& why, bool explained);
    /// In a rendezvous "10.0.0.1:4000, 10.0.0.1:4001: reason; ...", by reason.
    [[nodiscard]] std::string describe_failures() const;

    DialArgs args;
    std::vector<Failure> failures;  // by endpoint
    std::size_t turn = 0;           // of the endpoints
    TimePoint next_attempt = now();
    Duration backoff;
    bool in_progress = false;
    Status failure;                          // of the last attempt
    std::optional<TimePoint> refused_since;  // nobody has listened since then
  };

  struct Listener {
    FileDescriptor socket;
    bool ready = false;  // the last poll found it readable
    bool armed = false;  // the next one looks at it
  };

  using Outcome = Result<std::optional<ConnectorEvent>>;

  void accept_all();
  void accept_from(const FileDescriptor& listener);
  void add_accepted(FileDescriptor socket);
  void make_room();
  void start_due_dials();
  Status start(Dial& dial);
  void fail_dial(const DialKey& key, const Status& why, bool explained = false);
  [[nodiscard]] std::optional<ConnectorEvent> give_up();
  void on_silence(const Pending& pending);
  void expire();
  void poll_once(TimePoint deadline, int cancel_fd);
  void note_ready(int fd);
  Outcome serve_ready();
  Outcome serve(std::list<Pending>::iterator pending);
  [[nodiscard]] std::optional<ConnectorEvent> take_readable();
  [[nodiscard]] ConnectorEvent admit(Pending& pending);

  const FileDescriptor events_;  // an epoll of all sockets
  const IdentityLookup lookup_;
  const std::size_t most_handshakes_;
  const std::string greeting_;
  std::vector<Listener> listeners_;
  std::list<Pending> pending_;
  std::map<DialKey, Dial> dials_;
  std::set<int> unproven_;
  std::map<int, int> watched_;
  std::vector<int> readable_;  // watched ranks found readable by the last poll
  TimePoint accept_after_;     // no descriptor was left before
};

}  // namespace ronde::net
