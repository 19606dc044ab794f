#include "core/base/os/folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "core/base/os/file_descriptor.h"

namespace ronde {

namespace fs = std::filesystem;

Result<std::string> current_folder() {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  if (!error) return folder.string();
  return Status(Code::kUnavailable,
                fmt::format("the current folder cannot be used: {}; it may have been deleted; "
                            "change to another one",
                            error.message()));
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.string();
}

bool is_folder(const fs::path& path) noexcept {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const fs::path& path) noexcept {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  while (!error && entry != fs::directory_iterator()) {
    found.push_back(entry->path());
    entry.increment(error);
  }
  return found;
}

Result<std::string> read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 1 << 16> piece{};
  ssize_t count = file.valid() ? 1 : -1;
  while (count > 0) {
    count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) {
      count = 1;
    } else if (count > 0) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
  }
  if (count == 0) return text;
  return Status(Code::kUnavailable, std::generic_category().message(errno));
}

}  // namespace ronde
