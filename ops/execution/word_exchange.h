// Numbers that the ranks of a group give one another before or after an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"

namespace ronde {

/// An allgather of 64-bit words over a communicator of host memory. Threads: one at a time.
class WordExchange {
 public:
  /// `host` outlives it.
  WordExchange(Communicator& host, int size) : host_(host), size_(static_cast<std::size_t>(size)) {}

  /// Gives every rank the words of all, by rank; each has equally many. Valid until the next call.
  /// Blocks. Errors: as Communicator::run.
  Result<std::span<const std::int64_t>> allgather(std::span<const std::int64_t> mine,
                                                  const AbortToken& abort);

 private:
  Communicator& host_;
  const std::size_t size_;
  std::vector<std::int64_t> all_;         // kept
  std::vector<std::size_t> chunk_bytes_;  // kept
};

}  // namespace ronde
