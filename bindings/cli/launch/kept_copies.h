// The copies of an elastic job's state that an agent keeps for workers that it will start.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/os/file_descriptor.h"

namespace ronde {

/// The memory files of a worker's last two copies of its state: bindings/elastic/commit_store.h.
using CopyFiles = std::array<FileDescriptor, 2>;

inline constexpr std::int64_t kNoCopies = -1;

/// The step of the newest whole copy; kNoCopies without one.
std::int64_t newest_step_of(const CopyFiles& files);

/// Copies of workers that have failed. Threads: one.
class KeptCopies {
 public:
  /// Keeps them, if one is whole, among the newest `most`. Returns newest_step_of().
  std::int64_t add(CopyFiles files, int most);
  /// Those with the newest step; none where there are none.
  [[nodiscard]] CopyFiles take();

 private:
  std::vector<CopyFiles> kept_;
};

}  // namespace ronde
