// Reports how much of some files has been read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ronde {

/// Receives the bytes read and the total, every 16 MiB and at the end.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The size of a file; 0 if unknown.
std::uint64_t bytes_of(const std::string& path);

/// Counts bytes while the files are read one after the other, `times` times. `progress` may be
/// empty and must outlive it.
class ProgressTeller {
 public:
  ProgressTeller(const std::vector<std::string>& paths, const ReadProgress& progress,
                 std::uint64_t times = 1);

  /// Reports the bytes read of the current file.
  void tell(std::uint64_t bytes);
  /// Ends the current file of `bytes` bytes.
  void end(std::uint64_t bytes);

 private:
  const ReadProgress& progress_;
  const std::uint64_t times_;
  std::uint64_t total_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace ronde
