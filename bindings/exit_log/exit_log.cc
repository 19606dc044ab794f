#include "bindings/exit_log/exit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "bindings/descriptors/passed.h"

namespace ronde {
namespace {

constexpr const char* kName = "ronde-exit-log";
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::string path_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

/// Another file may have the number if the program closed what it inherited.
bool is_exit_log(int fd) {
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path_of(fd).c_str(), target.data(), target.size());
  const std::string_view found(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return found.starts_with(fmt::format("/memfd:{} ", kName));
}

/// All readers share the descriptor's offset, so none may move it.
std::string contents(int fd) {
  std::string all;
  std::array<char, 4096> piece{};
  while (all.size() < kMostBytes) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(all.size()));
    if (got <= 0) break;
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
  return all;
}

/// In which an agent tells its log again.
constexpr std::chrono::milliseconds kLimit{1000};

int inherited_descriptor() {
  const char* text = std::getenv(kExitLogVariable);  // NOLINT(concurrency-mt-unsafe)
  const std::string_view digits = text == nullptr ? "" : text;
  int fd = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  if (fd < 0) return -1;
  auto passed = take_passed(kExitLogVariable, fd, kLimit);
  if (!passed.ok()) return -1;
  return *passed ? (*passed)->release() : fd;
}

}  // namespace

Status ExitLog::open() {
  writing_.reset(::memfd_create(kName, MFD_CLOEXEC));
  if (writing_.valid()) {
    reading_.reset(::open(path_of(writing_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (reading_.valid()) return {};
  return errno_status("cannot make a memory file for the exits of ranks");
}

void ExitLog::add(const ProcessExit& ended) {
  const std::string line = fmt::format("{} {} {}\n", ended.pid, ended.host, ended.text);
  if (writing_.valid()) (void)!::write(writing_.get(), line.data(), line.size());
}

std::string read_exit(int fd, int pid, std::string_view host) {
  if (fd < 0 || !is_exit_log(fd)) return {};
  const std::string all = "\n" + contents(fd);
  const std::string start = fmt::format("\n{} {} ", pid, host);
  const std::size_t at = all.rfind(start);  // the last of that number
  if (at == std::string::npos) return {};
  const std::size_t text = at + start.size();
  const std::size_t end = all.find('\n', text);
  return end == std::string::npos ? std::string() : all.substr(text, end - text);
}

Status with_exit(const Status& status) {
  static const int kDescriptor = inherited_descriptor();
  const std::optional<FailedRank>& failed = status.failed_rank();
  if (status.code() != Code::kRankFailure || !failed || failed->pid == 0) return status;
  const std::string ended = read_exit(kDescriptor, failed->pid, failed->host);
  if (ended.empty()) return status;
  return Status(status.code(), fmt::format("{}; pid {} {}", status.message(), failed->pid, ended))
      .about(*failed);
}

}  // namespace ronde
