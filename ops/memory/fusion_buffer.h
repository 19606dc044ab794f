// Turns lists of segments into the flat buffers that algorithms work on, and back. A
// communicator that takes segments itself does without.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ports/communicator.h"
#include "ops/algorithms.h"
#include "ops/memory/memory.h"

namespace ronde {

/// Bytes of the flat input that a rank reads, and of the flat output that it writes.
struct SideBytes {
  std::size_t in = 0;
  std::size_t out = 0;
};
SideBytes side_bytes(const Work& work, int rank, int size);

/// `whole` with the flat buffers, as `segment`, in place of its segments, and without phases.
Work work_of(const FlatWork& flat, const Segment& segment, const Work& whole);

/// Memory that grows to the largest bundle seen and is used again.
/// Threads: one at a time.
class FusionBuffer {
 public:
  /// For rank `rank` of `size`. `copies` outlives this.
  FusionBuffer(CopyEngine& copies, int rank, int size);

  /// Flat buffers for `work`: the caller's own where one segment has every address that is needed,
  /// otherwise packed copies, null inputs being zeros. Chunks of several segments are laid out rank
  /// by rank, so that an algorithm sees one tensor. The result is valid until the next call.
  FlatWork flatten(const Work& work, const ReduceKernels& kernels, const AbortToken& abort);

  /// Brings the results of the last flatten() to the segments of the same `work`. At the root of a
  /// broadcast this is a copy from `in` to `out`.
  void unflatten(const Work& work);

  /// True if the last flatten() copied.
  [[nodiscard]] bool packed() const noexcept { return packed_; }

 private:
  void copy_at_root(const Work& work);

  CopyEngine& copies_;
  const int rank_;
  const int size_;
  GrowingMemory memory_;
  std::vector<std::size_t> part_bytes_;
  std::byte* flat_out_ = nullptr;
  bool packed_ = false;
};

}  // namespace ronde
