#include "bindings/cli/launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ronde {

bool Destination::write() {
  if (queue_.write_some(fd_)) return true;
  gone_ = true;
  queue_.drop();
  return false;
}

Status RankFiles::open(const std::filesystem::path& directory, int ranks) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return {Code::kInvalidArgument,
            fmt::format("--output-dir {}: {}", directory.string(), error.message())};
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = (directory / fmt::format("rank.{}.txt", rank)).string();
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return errno_status("cannot write " + path);
    files_[rank] = std::move(file);
  }
  return {};
}

std::string RankFiles::append(int rank, std::string_view bytes) {
  const auto file = files_.find(rank);
  if (file == files_.end() || complained_) return {};
  while (!bytes.empty()) {
    const ssize_t written = ::write(file->second.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      complained_ = true;
      return errno_status("cannot write to --output-dir, which ends here").message();
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace ronde
