// Huge pages for the memory of copies. Copying into pages of 4 KiB takes a quarter longer than
// between arrays, which have huge pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core/base/os/memory_file.h"
#include "core/base/status.h"

namespace ronde::elastic {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Maps a memory file as map_memory_file() does, at an address from which huge pages can begin.
Result<Mapping> map_for_huge_pages(int file, std::size_t bytes);

/// Moves memory to huge pages while it is in use. Moving takes three times as long as filling it,
/// so a thread does it, which nobody waits for: a forked child could not. Where the system cannot
/// (Linux before 6.1), the memory stays as it is.
class HugePageMover {
 public:
  HugePageMover() = default;
  ~HugePageMover() { stop(); }
  HugePageMover(HugePageMover&&) noexcept = default;
  HugePageMover& operator=(HugePageMover&& other) noexcept;

  /// Begins to move all pages, which should have been written. Ends an earlier move. Small memory
  /// is left alone.
  void move(std::shared_ptr<const Mapping> memory);
  /// Waits for the end, for tests.
  void wait() const;

 private:
  struct Progress {
    std::atomic<bool> stopped = false;
    std::atomic<bool> ended = false;
  };
  void stop() noexcept;

  std::shared_ptr<Progress> progress_;  // null: nothing was moved
};

}  // namespace ronde::elastic
