#include "timeline/recording/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <new>
#include <utility>

namespace ronde {
namespace {

constexpr std::string_view kClose = "\n]\n";

}  // namespace

/// Makes gzip members of texts.
class TraceFile::Gzip {
 public:
  Gzip() {
    constexpr int kGzipFormat = 16, kMemory = 8;
    if (deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzipFormat, kMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::string member(std::string_view text) {
    std::string out(deflateBound(&stream_, text.size()), '\0');
    // zlib's interface lacks a const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    (void)deflate(&stream_, Z_FINISH);
    out.resize(stream_.total_out);
    (void)deflateReset(&stream_);
    return out;
  }

 private:
  z_stream stream_{};
};

Result<TraceFile> TraceFile::open(const std::string& path, std::string_view first) {
  make_folder_of(path);
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_status(fmt::format("cannot write the timeline {}", path));
  TraceFile file(std::move(fd), path);
  RONDE_RETURN_IF_ERROR(file.append(fmt::format("[\n{}", first)));
  return file;
}

TraceFile::TraceFile(FileDescriptor fd, std::string path)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      gzip_(names_gzip(path_) ? std::make_unique<Gzip>() : nullptr),
      close_(encoded(kClose)) {}

TraceFile::TraceFile(TraceFile&& other) noexcept = default;
TraceFile& TraceFile::operator=(TraceFile&& other) noexcept = default;
TraceFile::~TraceFile() = default;

std::string TraceFile::encoded(std::string_view bytes) {
  return gzip_ ? gzip_->member(bytes) : std::string(bytes);
}

Status TraceFile::write_at(std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return errno_status(fmt::format("cannot write the timeline {}", path_),
                          Code::kResourceExhausted);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

Status TraceFile::append(std::string_view events) {
  if (events.empty()) return {};
  std::string bytes = encoded(events);
  const auto added = static_cast<std::int64_t>(bytes.size());
  bytes += close_;
  if (Status status = write_at(end_, bytes); !status.ok()) {
    (void)write_at(end_, close_);
    (void)::ftruncate(fd_.get(), end_ + static_cast<std::int64_t>(close_.size()));
    return status;
  }
  end_ += added;
  return {};
}

}  // namespace ronde
