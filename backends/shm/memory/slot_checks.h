// The checksums of what ranks put into their slots, where RONDE_CHECKSUMS asks for them. A rank
// that writes a part of a slot leaves its checksum beside the slot. Each rank that reads the part
// compares, block by block, while the block is in its cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/steps.h"
#include "core/base/bytes.h"
#include "core/base/status.h"

namespace ronde::shm {

/// A part of a rank's slot, which has a checksum of its own.
struct SlotPart {
  int rank = 0;  ///< Wrote it.
  Step step = 0;
  std::size_t index = 0;  ///< As Layout::checksums.
};

/// Where the first byte of a part lies in the work.
struct PlaceInWork {
  std::size_t segment = 0;
  std::size_t within = 0;
};

/// One rank's view of the group's checksums. Threads: one at a time.
class SlotChecks {
 public:
  /// `base` is the group's memory and must outlive this. `ranks`: of the job, in the group's order.
  SlotChecks(const Layout& layout, std::byte* base, int rank, std::vector<int> ranks)
      : layout_(layout), base_(base), rank_(rank), ranks_(std::move(ranks)) {}

  /// Leaves the checksum of a part that this rank has written.
  void seal(Step step, std::size_t index, const Checksum& sum) noexcept {
    layout_.checksums(base_, rank_, step)[index] = short_sum(sum);
  }
  /// Compares that of a part which this rank has read.
  void compare(const SlotPart& part, const Checksum& sum, std::size_t bytes, PlaceInWork place) {
    const std::uint32_t sealed = layout_.checksums(base_, part.rank, part.step)[part.index];
    if (sealed != short_sum(sum) && found_.ok()) found_ = describe(part.rank, bytes, place);
  }
  /// Ok, or kCorrupted about the first part that had changed.
  [[nodiscard]] const Status& found() const noexcept { return found_; }

 private:
  static std::uint32_t short_sum(const Checksum& sum) noexcept {
    return static_cast<std::uint32_t>(sum.value() >> 32);
  }
  [[nodiscard]] Status describe(int writer, std::size_t bytes, PlaceInWork place) const;

  const Layout layout_;
  std::byte* const base_;
  const int rank_;
  const std::vector<int> ranks_;
  Status found_;
};

/// Calls `use(offset, bytes)` for the blocks of a part that is `bytes` long.
template <typename Use>
void for_each_block(std::size_t bytes, Use use) {
  for (std::size_t done = 0; done < bytes; done += Checksum::kBlockBytes) {
    use(done, std::min(Checksum::kBlockBytes, bytes - done));
  }
}

}  // namespace ronde::shm
