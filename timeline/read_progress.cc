#include "timeline/read_progress.h"

#include <filesystem>
#include <system_error>

namespace ronde {
namespace {

constexpr std::uint64_t kBetween = std::uint64_t{16} << 20;

}  // namespace

std::uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

ProgressTeller::ProgressTeller(const std::vector<std::string>& paths, const ReadProgress& progress,
                               std::uint64_t times)
    : progress_(progress), times_(times) {
  for (const std::string& path : paths) total_ += bytes_of(path);
}

void ProgressTeller::tell(std::uint64_t bytes) {
  const std::uint64_t done = (ended_ + bytes) / times_;
  const bool ends = done >= total_ && told_ < total_;
  if (!progress_ || (done < told_ + kBetween && !ends)) return;
  told_ = done;
  progress_(done, total_);
}

void ProgressTeller::end(std::uint64_t bytes) {
  tell(bytes);
  ended_ += bytes;
}

}  // namespace ronde
