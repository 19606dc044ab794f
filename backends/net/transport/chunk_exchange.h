// The chunks that go both ways over one connection of a BondedLink, from its greeting to its end.
//
// Each header acknowledges what has arrived. A chunk without data does so where none is to be sent,
// or carries a word about a rest: see rest_agreement.h.
#pragma once

#include <cstdint>

#include "backends/net/link/silence_clock.h"
#include "backends/net/transport/chunk_stream.h"
#include "backends/net/transport/greetings.h"
#include "backends/net/transport/peer_windows.h"
#include "backends/net/transport/rest_agreement.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// Fills and empties the windows over one connection. No call blocks. Threads: one at a time.
/// Errors of send and receive: as Stream; kInternal where the peer sent another length than was
/// expected, or what cannot be.
class ChunkExchange {
 public:
  /// Goes on behind the peer's greeting. Where the peer has dialed, this rank's follows.
  ChunkExchange(GreetedConnection connection, const Lane& lane);

  /// Sends what goes now. `takes`: chunks of the windows too, not only what concerns the
  /// connection.
  Status send(bool takes, bool& moved);
  /// Takes what has arrived. False: both sides agreed that this one closes the connection.
  Result<bool> receive(bool& moved);
  /// True where send() has something to send.
  [[nodiscard]] bool has_output(bool takes) const noexcept {
    return chunks_.writing() || (takes && lane_.windows.sends.has_waiting()) || has_control();
  }
  /// Reads a chunk no longer into its receive where another connection has brought it.
  void drop_known_chunk() {
    const bool known = lane_.shares && lane_.windows.receives.has(chunks_.incoming().sequence);
    if (known) chunks_.drop_place();
  }

  /// Returns how long the peer's host has been silent.
  Duration look(TimePoint time) noexcept;
  /// True where the last look has found it silent.
  [[nodiscard]] bool is_silent() const noexcept { return silent_; }
  /// True while looks are needed.
  [[nodiscard]] bool needs_looks() const noexcept { return wrote_ || silence_.waiting(); }

  /// True where the connection carries nothing and may rest.
  [[nodiscard]] bool may_rest() const noexcept {
    return !rest_.is_under_way() && !lane_.windows.has_posted() && !chunks_.writing();
  }
  /// Asks the peer for that.
  void ask_to_rest() noexcept { rest_.ask(); }
  /// True where the peer may close the connection, whatever this rank has sent since.
  [[nodiscard]] bool may_be_closed() const noexcept { return rest_.is_agreed(); }

  /// For poll().
  [[nodiscard]] int fd() const noexcept { return chunks_.fd(); }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept { return chunks_.has_unread(); }

 private:
  [[nodiscard]] bool acknowledges() const noexcept;
  [[nodiscard]] bool has_control() const noexcept { return acknowledges() || rest_.has_word(); }
  bool begin_next(bool takes);
  Status on_header();
  Result<bool> on_chunk();

  const Lane lane_;
  RestAgreement rest_;
  ChunkStream chunks_;
  SilenceClock silence_;
  bool silent_ = false;
  bool wrote_ = false;               // since the last look
  std::uint64_t reported_cost_ = 0;  // of what the peer knows to be delivered
  bool acknowledge_now_;             // an acceptor's greeting tells
};

}  // namespace ronde::net
