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

/// An allgather of 64-bit numbers over a communicator of host memory. Threads: one at a time.
class NumberExchange {
 public:
  /// `host` outlives it.
  NumberExchange(Communicator& host, int size)
      : host_(host), size_(static_cast<std::size_t>(size)) {}

  /// Gives every rank the numbers of all, by rank; each has equally many. Valid until the next
  /// call.
  /// Blocks. Errors: as Communicator::run.
  Result<std::span<const std::int64_t>> allgather(std::span<const std::int64_t> mine,
                                                  const AbortToken& abort) {
    all_.resize(mine.size() * size_);
    chunk_bytes_.assign(size_, mine.size_bytes());
    const Segment segment{std::as_bytes(mine).data(),
                          std::as_writable_bytes(std::span(all_)).data(),
                          all_.size() * sizeof(std::int64_t)};
    Work work;
    work.kind = Collective::kAllgather;
    work.reduction.dtype = DType::kInt64;
    work.segments = {&segment, 1};
    work.chunk_bytes = chunk_bytes_;
    work.bytes = segment.bytes;
    RONDE_RETURN_IF_ERROR(host_.run(work, kNoStream, abort).in_tensor({}));  // its own segments
    return std::span<const std::int64_t>(all_);
  }

 private:
  Communicator& host_;
  const std::size_t size_;
  std::vector<std::int64_t> all_;         // kept
  std::vector<std::size_t> chunk_bytes_;  // kept
};

}  // namespace ronde
