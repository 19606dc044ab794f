// Non-blocking reads and writes of a stream socket, in pieces.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "core/base/status.h"

namespace ronde::net {

/// Sends from the start of `pieces`; returns how many bytes went. 0: it would block.
/// Errors: as Stream.
Result<std::size_t> send_pieces(int fd, std::span<const iovec> pieces);

/// The result of a read.
struct Received {
  std::size_t bytes = 0;  ///< 0: it would block, or it ended.
  bool ended = false;     ///< The peer closed the connection.
};

/// Fills `pieces` from their start. Errors: as Stream.
Result<Received> receive_pieces(int fd, std::span<const iovec> pieces);

/// The bytes of all pieces.
std::size_t total_of(std::span<const iovec> pieces) noexcept;

}  // namespace ronde::net
