// The kernel's knowledge of the other end of a TCP connection.
#pragma once

#include <cstdint>

namespace ronde::net {

/// As it is now.
struct TcpProgress {
  bool waiting = false;                  ///< Something was written and is not acknowledged.
  std::uint64_t acknowledged_bytes = 0;  ///< Since the connection began.
  std::uint64_t full_us = 0;             ///< How long the peer's buffer has been full in all.
  unsigned lost_probes = 0;              ///< Probes of a full buffer in a row without an answer.
};

/// Zeros where `fd` is no TCP connection.
TcpProgress tcp_progress(int fd) noexcept;

}  // namespace ronde::net
