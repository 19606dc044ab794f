#include "timeline/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ronde {
namespace {

constexpr std::string_view kClose = "\n]\n";

std::string errno_text() { return std::generic_category().message(errno); }

}  // namespace

std::string rank_trace_path(const std::string& path, int rank) {
  const std::filesystem::path whole(path);
  const std::string name =
      fmt::format("{}.rank{}{}", whole.stem().string(), rank, whole.extension().string());
  return (whole.parent_path() / name).string();
}

Result<TraceFile> TraceFile::open(const std::string& path, std::string_view first) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Status(Code::kUnavailable,
                  fmt::format("cannot write the timeline {}: {}", path, errno_text()));
  }
  TraceFile file(fd, path);
  RONDE_RETURN_IF_ERROR(file.append(fmt::format("[\n{}", first)));
  return file;
}

TraceFile::TraceFile(TraceFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), end_(other.end_) {}

TraceFile::~TraceFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status TraceFile::write_at(std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return {Code::kResourceExhausted,
              fmt::format("cannot write the timeline {}: {}", path_, errno_text())};
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

Status TraceFile::append(std::string_view events) {
  if (events.empty()) return {};
  std::string bytes(events);
  bytes += kClose;
  if (Status status = write_at(end_, bytes); !status.ok()) {
    (void)write_at(end_, kClose);
    (void)::ftruncate(fd_, end_ + static_cast<std::int64_t>(kClose.size()));
    return status;
  }
  end_ += static_cast<std::int64_t>(events.size());
  return {};
}

}  // namespace ronde
