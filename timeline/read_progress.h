// Tells how much of some files has been read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ronde {

/// Told how many bytes of the inputs have been read, of how many, every 16 MiB and at the end.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The size of a file; 0 where it cannot be told.
std::uint64_t bytes_of(const std::string& path);

/// Counts what is read of one file after the other, all of them `times` times. `progress`, which
/// may be empty, must outlive it.
class ProgressTeller {
 public:
  ProgressTeller(const std::vector<std::string>& paths, const ReadProgress& progress,
                 std::uint64_t times = 1);

  /// Of the file that is being read.
  void tell(std::uint64_t bytes);
  /// That file is read, all `bytes` of it.
  void end(std::uint64_t bytes);

 private:
  const ReadProgress& progress_;
  const std::uint64_t times_;
  std::uint64_t total_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace ronde
