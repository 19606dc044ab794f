#include "timeline/recording/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <new>
#include <utility>

namespace ronde {
namespace {

constexpr std::string_view kClose = "\n]\n";
constexpr std::string_view kGzip = ".gz";

}  // namespace

bool names_gzip(std::string_view path) noexcept { return path.ends_with(kGzip); }

bool names_perfetto(std::string_view path) noexcept {
  if (names_gzip(path)) path.remove_suffix(kGzip.size());
  return path.ends_with(".pftrace") || path.ends_with(".perfetto-trace");
}

namespace {

/// "a/trace.json" with `mark` gives "a/trace.MARK.json".
std::string marked_path(const std::string& path, const std::string& mark) {
  const std::string_view gzip = names_gzip(path) ? kGzip : std::string_view();
  const std::filesystem::path whole(path.substr(0, path.size() - gzip.size()));
  const std::string extension = names_perfetto(path) ? ".json" : whole.extension().string();
  const std::string name = fmt::format("{}.{}{}{}", whole.stem().string(), mark, extension, gzip);
  return (whole.parent_path() / name).string();
}

}  // namespace

std::string rank_trace_path(const std::string& path, int rank) {
  return marked_path(path, fmt::format("rank{}", rank));
}

std::string trace_part_path(const std::string& path, int rank, int part) {
  return marked_path(path, fmt::format("rank{}.part{:04}", rank, part));
}

std::vector<std::string> trace_files(const std::string& path, int rank) {
  namespace fs = std::filesystem;
  const fs::path last(rank_trace_path(path, rank));
  const std::string model = fs::path(trace_part_path(path, rank, 0)).filename().string();
  const std::string_view before = std::string_view(model).substr(0, model.rfind(".part0000") + 5);
  const std::string_view after = std::string_view(model).substr(before.size() + 4);
  std::map<int, std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(last.has_parent_path() ? last.parent_path() : fs::path("."), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    const char* const begin = name.data() + before.size();
    const char* const end = name.data() + name.size() - after.size();
    int part = 0;
    if (begin < end && std::from_chars(begin, end, part).ptr == end) {
      found.emplace(part, (last.parent_path() / name).string());
    }
  }
  std::vector<std::string> files;
  files.reserve(found.size() + 1);
  for (auto& [part, file] : found) files.push_back(std::move(file));
  if (fs::exists(last, error)) files.push_back(last.string());
  return files;
}

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

void make_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
}

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
