// Counts of the data connections that this process has with ranks of other hosts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/ports/event_sink.h"

namespace ronde {

/// Totals, which go on in later epochs of an elastic job. Threads: any.
struct ConnectionCounts {
  std::atomic<std::uint64_t> opened{0};
  std::atomic<std::uint64_t> closed{0};
  /// Nanoseconds from the first attempt to the end of the handshake, of those dialed here.
  std::atomic<std::uint64_t> opening_ns{0};

  /// Outages that have ended, and their nanoseconds in all.
  std::atomic<std::uint64_t> healed{0};
  std::atomic<std::uint64_t> outage_ns{0};
  /// Those of them that began with a wrong checksum.
  std::atomic<std::uint64_t> corrupted{0};

  /// Connections that are open now.
  [[nodiscard]] std::uint64_t open() const noexcept {
    const std::uint64_t ends = closed.load();  // read first, so the result is never too small
    return opened.load() - ends;
  }
};

/// The observers of a job's connections.
struct ConnectionObservers {
  std::shared_ptr<ConnectionCounts> counts = nullptr;  ///< May be null.
  /// The connection with a rank of the job works again after an outage. Threads: any. May be null.
  std::function<void(int rank, TimeSpan outage)> on_healed = nullptr;
  /// A connection with a rank of another host was made, over this socket. As on_healed.
  std::function<void(int rank, int fd)> on_connected = nullptr;
};

}  // namespace ronde
