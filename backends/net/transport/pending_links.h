// The connections of a PeerLink that carry nothing: accepted ones whose dialer has not begun yet,
// and one that is watched, as it ends when the peer leaves the group.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "backends/net/link/connection_manager.h"
#include "backends/net/transport/peer_words.h"
#include "core/base/status.h"

namespace ronde::net {

/// Finds the connection to use, and the departure of the peer. No call blocks. Threads: one.
class PendingLinks {
 public:
  /// Holds an accepted connection, which may be used once its dialer begins.
  void add(Link link) { candidates_.push_back({std::move(link), {}}); }
  /// True where none is held that may be used.
  [[nodiscard]] bool empty() const noexcept { return candidates_.empty(); }
  /// The first accepted connection whose dialer has begun; all others are closed then.
  std::optional<Link> take_begun();

  /// Watches this connection, and no other one any more.
  void watch(Link link) { watched_ = std::move(link); }
  [[nodiscard]] bool watches() const noexcept { return watched_.stream.valid(); }
  void stop_watching() { watched_ = {}; }
  /// Does so where the connection has ended.
  void stop_watching_ended();
  /// Errors: as Stream, once the peer has left the group.
  Status look_for_departure();

  /// Calls `add(fd)` for each descriptor that may bring a begin.
  template <typename Add>
  void for_each_candidate(Add add) const {
    for (const Candidate& candidate : candidates_) add(candidate.link.stream.fd());
  }
  /// Calls `add(fd)` for the descriptor that may bring a departure.
  template <typename Add>
  void for_watched(Add add) const {
    if (watches()) add(watched_.stream.fd());
  }

 private:
  struct Candidate {
    Link link;
    WordReader word;
  };

  std::vector<Candidate> candidates_;
  Link watched_;
  int departures_ = 0;  // watched connections that ended, since a connection began
};

}  // namespace ronde::net
