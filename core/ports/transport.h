// Point-to-point between the ranks of one group: all that the algorithms in ops/ need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/abort.h"
#include "core/base/status.h"

namespace ronde {

/// Names one posted send or receive of a Transport.
using TransferId = std::uint64_t;

/// Messages between ranks 0 .. size-1 of one group. Messages of one ordered pair of ranks match in
/// the order they were posted; a receive must have exactly the length of its send.
/// Threads: one at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  /// Starts sending `data` to `to` (not this rank). `data` must stay untouched until waited for.
  /// Blocks: never. Zero bytes are a message too.
  virtual Result<TransferId> send(int to, std::span<const std::byte> data) = 0;

  /// Starts receiving into `data` from `from` (not this rank). Blocks: never.
  virtual Result<TransferId> recv(int from, std::span<std::byte> data) = 0;

  /// Blocks until the transfer is done, driving all posted transfers meanwhile. Each id is waited
  /// for once; ids may be waited for in any order.
  /// Errors: the abort's status within milliseconds of it; kRankFailure where the peer is gone.
  /// After an error the group is broken: no transfer of it may be trusted or posted any more.
  virtual Status wait(TransferId id, const AbortToken& abort) = 0;
};

}  // namespace ronde
