// New connections of a BondedLink before they carry chunks: those whose greetings are under way,
// and the one by which the lower rank asks for another.
#pragma once

#include <poll.h>

#include <cstddef>
#include <list>
#include <optional>
#include <utility>

#include "backends/net/link/connection_manager.h"
#include "backends/net/link/silence_clock.h"
#include "backends/net/transport/chunk.h"
#include "backends/net/transport/chunk_stream.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// A connection that may carry chunks.
struct GreetedConnection {
  ChunkStream chunks;
  CountedConnection counted;
};

/// No call blocks. Threads: one at a time.
class Greetings {
 public:
  /// `dials`: this rank makes the connections that carry chunks.
  explicit Greetings(bool dials) noexcept : dials_(dials) {}

  /// A connection that is to carry chunks. `greeting` is sent on it where this rank has dialed.
  void begin(Link link, ChunkHeader greeting);
  /// A connection by which the lower rank asks for one. Both hold it until there is a new one. It
  /// ends early where the peer has left.
  void ask(Link link) { asking_ = Asking{std::move(link), now()}; }
  /// A connection is in use: nobody asks or refuses any more.
  void settle() noexcept {
    asking_.reset();
    refusals_ = 0;
  }
  void close() noexcept {
    candidates_.clear();
    asking_.reset();
  }

  /// The next connection whose greeting is there, if there is one. Errors: kInvalidArgument where
  /// sealed bytes were changed; kInternal where the peer sent something else.
  Result<std::optional<GreetedConnection>> next(bool& moved);

  /// Gives up what is silent. Returns since when the peer has asked in vain, if it has; `used`:
  /// there was a connection before.
  std::optional<TimePoint> look(TimePoint time, bool used);

  /// True while a connection may come of it.
  [[nodiscard]] bool under_way() const noexcept {
    return !candidates_.empty() || (!dials_ && asking_);
  }
  [[nodiscard]] bool needs_looks() const noexcept { return asking_ || !candidates_.empty(); }
  /// True while connections were closed before a greeting: the next one has time.
  [[nodiscard]] bool is_slowed() const noexcept { return refusals_ > 0; }
  /// True where the peer's process closed several new connections before a greeting.
  [[nodiscard]] bool is_refused() const noexcept;
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept;

  /// As BondedLink::for_each_wait.
  template <typename Add>
  void for_each_wait(Add add) const {
    for (const Candidate& candidate : candidates_) {
      const ChunkStream& chunks = candidate.connection.chunks;
      add(chunks.fd(), chunks.writing() ? POLLIN | POLLOUT : POLLIN);
    }
    if (asking_) add(asking_->link.stream.fd(), POLLIN);
  }

 private:
  struct Candidate {
    GreetedConnection connection;
    TimePoint since;
    SilenceClock silence = {};
  };
  struct Asking {
    Link link;
    TimePoint since;
  };

  static Result<bool> has_greeting(ChunkStream& chunks, bool& moved);
  std::optional<TimePoint> look_at_asking(TimePoint time, bool used);
  void note_refusal(TimePoint time) noexcept {
    if (refusals_++ == 0) refused_since_ = time;
  }

  const bool dials_;
  std::list<Candidate> candidates_;
  std::optional<Asking> asking_;
  std::uint64_t last_dialed_ = 0;  // attempt
  int refusals_ = 0;               // in a row
  TimePoint refused_since_;
};

}  // namespace ronde::net
