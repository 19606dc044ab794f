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

/// True if the peer's host has answered between two looks, or owes no answer. A frozen peer's host
/// acknowledges what fits its buffer, then reports the buffer as full.
constexpr bool shows_life(const TcpProgress& was, const TcpProgress& is) noexcept {
  constexpr unsigned kLostProbes = 2;
  const bool full = is.full_us != was.full_us && is.lost_probes <= kLostProbes;
  return !is.waiting || is.acknowledged_bytes != was.acknowledged_bytes || full;
}

/// Zeros where `fd` is no TCP connection.
TcpProgress tcp_progress(int fd) noexcept;

}  // namespace ronde::net
