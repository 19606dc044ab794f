// A connection with one peer that is replaced when it breaks.
//
// The higher rank of a pair dials, the lower accepts. Both greet on each new connection: which
// attempt it is, and how far each has received. Then the chunks that the peer lacks are sent
// again. A connection that the lower rank dials carries nothing: it asks the higher one to dial.
//
// One that carries nothing may rest: both agree to close it, and it is made again once it is
// needed. That is no outage.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/link/outage.h"
#include "backends/net/link/silence_clock.h"
#include "backends/net/transport/chunk_stream.h"
#include "backends/net/transport/greetings.h"
#include "backends/net/transport/receive_window.h"
#include "backends/net/transport/rest_agreement.h"
#include "backends/net/transport/send_window.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// The chunks of one peer, which all connections with it share.
struct PeerWindows {
  PeerWindows(std::size_t bytes, std::size_t chunk_bytes) noexcept
      : capacity(bytes), sends(bytes, chunk_bytes), receives(bytes) {}

  [[nodiscard]] bool has_posted() const noexcept {
    return sends.has_posted() || receives.has_posted();
  }

  const std::size_t capacity;
  SendWindow sends;
  ReceiveWindow receives;
};

/// The parts of a BondedLink.
struct BondedLinkArgs {
  bool dials = false;    ///< This rank makes the connections.
  std::size_t card = 0;  ///< Tells the connections apart that share the windows.
  bool shares = false;   ///< There are others: they carry what this one does not.
  PeerWindows& windows;  ///< Outlive it.
};

/// One connection with a peer. No call blocks. Threads: one at a time.
class BondedLink {
 public:
  explicit BondedLink(const BondedLinkArgs& args) noexcept;

  /// Closes all connections.
  void close() noexcept;
  /// True where it has nothing to send now.
  [[nodiscard]] bool is_quiet() const noexcept { return !works() || !has_output(); }
  /// True while a connection is in use, as far as it is known.
  [[nodiscard]] bool works() const noexcept { return chunks_ && !silent_ && !asked_; }

  /// A new connection, dialed here or accepted.
  void attach(Link link);
  /// True where a connection is needed and none is under way.
  [[nodiscard]] bool wants_connection() const noexcept;
  /// True while connections were closed before a greeting: the next one has time.
  [[nodiscard]] bool is_slowed() const noexcept { return greetings_.is_slowed(); }
  /// True once a connection has carried chunks.
  [[nodiscard]] bool was_connected() const noexcept { return attempt_ != 0; }
  /// True where the peer's process closed several new connections before a greeting: it has left
  /// the group.
  [[nodiscard]] bool is_refused() const noexcept { return greetings_.is_refused(); }

  /// Moves what the connections take and give now. One that breaks is an outage, no error.
  /// Errors: kInvalidArgument where sealed bytes were changed; kInternal where the peer sent
  /// another length than was expected, or what cannot be.
  Status progress(bool& moved);
  /// The sending half of it alone.
  Status progress_sends(bool& moved);

  /// Reads a chunk no longer into its receive where another connection has brought it.
  void drop_known_chunk() {
    if (shares_ && chunks_ && receives_.has(chunks_->incoming().sequence)) chunks_->drop_place();
  }

  /// Finds connections that are silent.
  void look(TimePoint time);
  /// True while looks are needed.
  [[nodiscard]] bool needs_looks() const noexcept;
  /// True where the connection carries nothing and may rest.
  [[nodiscard]] bool may_rest() const noexcept;
  /// Asks the peer for that.
  void rest() noexcept { rest_.ask(); }
  /// When the connection was last used.
  [[nodiscard]] TimePoint last_progress() const noexcept { return last_progress_; }

  /// The outage that lasts. It begins with the last progress.
  [[nodiscard]] const std::optional<LinkOutage>& outage() const noexcept { return outage_; }
  /// The outages that have ended, once.
  std::vector<LinkOutage> take_ended_outages() { return std::exchange(ended_, {}); }

  /// Calls `add(fd, events)` for each descriptor whose events move something on.
  template <typename Add>
  void for_each_wait(Add add) const {
    greetings_.for_each_wait(add);
    if (chunks_) add(chunks_->fd(), has_output() ? POLLIN | POLLOUT : POLLIN);
  }
  /// True where a sleep in poll() would miss bytes that have arrived.
  [[nodiscard]] bool has_unread() const noexcept;

 private:
  [[nodiscard]] bool has_output() const noexcept;
  /// False where others carry the share of this connection, which may be dead.
  [[nodiscard]] bool may_take() const noexcept { return !shares_ || works(); }
  [[nodiscard]] bool acknowledges() const noexcept;
  [[nodiscard]] bool has_control() const noexcept;
  [[nodiscard]] bool needed() const noexcept {
    return windows_.has_posted() || sends_.has_unconfirmed() || asked_;
  }
  [[nodiscard]] ChunkHeader stamped(ChunkHeader header) const noexcept;

  Status greet(bool& moved);
  Status use(GreetedConnection connection);
  [[nodiscard]] bool is_idle() const noexcept {
    return !windows_.has_posted() && !sends_.has_unconfirmed();
  }
  void drop_connection() noexcept;
  Status send_chunks(bool& moved);
  bool begin_next();
  Status receive_chunks(bool& moved);
  Status on_header();
  Status on_chunk();
  Status judge(const Status& error);
  void lose(const std::string& reason);
  void begin_outage(TimePoint since, std::string reason);
  void end_outage();

  const bool dials_;
  const std::size_t card_;
  const bool shares_;
  const std::size_t acknowledge_cost_;
  PeerWindows& windows_;
  SendWindow& sends_;
  ReceiveWindow& receives_;
  std::optional<ChunkStream> chunks_;  // the connection in use
  RestAgreement rest_;                 // about it
  SilenceClock silence_;
  bool silent_ = false;
  bool wrote_ = false;  // since the last look
  Greetings greetings_;
  bool asked_ = false;               // by the peer, for another connection
  std::uint64_t attempt_ = 0;        // of the connection in use
  std::uint64_t reported_cost_ = 0;  // of what the peer knows to be delivered
  bool acknowledge_now_ = false;
  TimePoint last_progress_;
  std::optional<LinkOutage> outage_;
  std::vector<LinkOutage> ended_;
};

}  // namespace ronde::net
