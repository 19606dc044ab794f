// The windows of chunks that all connections with one peer share.
#pragma once

#include <cstddef>

#include "backends/net/transport/chunk.h"
#include "backends/net/transport/receive_window.h"
#include "backends/net/transport/send_window.h"
#include "core/base/status.h"

namespace ronde::net {

/// The chunks of one peer, both ways. Threads: one at a time.
struct PeerWindows {
  PeerWindows(std::size_t bytes, std::size_t chunk_bytes) noexcept
      : capacity(bytes), sends(bytes, chunk_bytes), receives(bytes) {}

  [[nodiscard]] bool has_posted() const noexcept {
    return sends.has_posted() || receives.has_posted();
  }
  /// True where neither this rank waits for a chunk nor the peer lacks one.
  [[nodiscard]] bool is_idle() const noexcept { return !has_posted() && !sends.has_unconfirmed(); }

  /// A header with the numbers of this moment.
  [[nodiscard]] ChunkHeader stamped(ChunkHeader header) const noexcept {
    header.received = receives.received_below();
    header.delivered = receives.delivered_below();
    return header;
  }
  /// Takes the numbers of the peer's header. Errors: kInternal where they cannot be.
  Status acknowledge(const ChunkHeader& header) {
    if (sends.acknowledge(header.received, header.delivered)) return {};
    return {Code::kInternal, "acknowledged what was not sent"};
  }

  const std::size_t capacity;
  SendWindow sends;
  ReceiveWindow receives;
};

/// One of the connections that share the windows.
struct Lane {
  bool dials = false;    ///< This rank makes it, each time.
  std::size_t card = 0;  ///< Tells it apart.
  bool shares = false;   ///< There are others: they carry what this one does not.
  PeerWindows& windows;  ///< Outlive it.
};

}  // namespace ronde::net
