#include "bindings/cli/launch/console.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/traceback.h"

namespace ronde {
std::string LinePrinter::end_foreign_line(int rank) {
  if (open_rank_ == kNobody || open_rank_ == rank) return {};
  open_rank_ = kNobody;
  return "\n";
}

namespace {

/// "2026-03-01 12:30:59.125 ", in local time.
std::string time_prefix() {
  timespec time{};
  tm parts{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  ::localtime_r(&time.tv_sec, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} ", parts, time.tv_nsec / 1'000'000);
}

}  // namespace

std::string LinePrinter::begin_line(int rank) {
  if (open_rank_ == rank) return {};
  return end_foreign_line(rank) + (times_ ? time_prefix() : "") + fmt::format("[{}] ", rank);
}

std::string LinePrinter::feed(int rank, std::string_view bytes) {
  Stream& stream = streams_[rank];
  std::string out;
  for (const char c : bytes) {
    const bool ends_return = c == '\n' && stream.after_return && stream.pending.empty();
    const bool empty_return = c == '\r' && stream.pending.empty();
    stream.after_return = c == '\r';
    if (c != '\n' && c != '\r') {
      stream.pending += c;
      continue;
    }
    out += ends_return || empty_return ? end_foreign_line(rank) : begin_line(rank);
    out += stream.pending + c;
    stream.pending.clear();
    open_rank_ = kNobody;
  }
  return out;
}

std::string LinePrinter::own_line(std::string_view text) {
  return end_foreign_line(kNobody) + fmt::format("{}\n", text);
}

bool LinePrinter::has_partial() const noexcept {
  for (const auto& [rank, stream] : streams_) {
    if (!stream.pending.empty()) return true;
  }
  return false;
}

std::string LinePrinter::flush_partial() {
  std::string out;
  for (auto& [rank, stream] : streams_) {
    if (stream.pending.empty()) continue;
    out += begin_line(rank) + stream.pending;
    open_rank_ = rank;
    stream.pending.clear();
  }
  return out;
}

bool Destination::write() {
  if (queue_.write_some(fd_)) return true;
  gone_ = true;
  queue_.drop();
  return false;
}

Status RankFiles::open(const std::filesystem::path& directory, int ranks, bool keep_old) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return {Code::kInvalidArgument,
            fmt::format("--output-dir {}: {}", directory.string(), error.message())};
  }
  directory_ = directory;
  keep_old_ = keep_old;
  for (int rank = 0; rank < ranks; ++rank) RONDE_RETURN_IF_ERROR(open_file(rank));
  return {};
}

Status RankFiles::open_file(int rank) {
  const std::string path = (directory_ / fmt::format("rank.{}.txt", rank)).string();
  const int mode = keep_old_ ? O_APPEND : O_TRUNC;
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | mode | O_CLOEXEC, 0644));
  if (!file.valid()) return errno_status("cannot write " + path);
  files_[rank] = std::move(file);
  return {};
}

std::string RankFiles::append(int rank, std::string_view bytes) {
  if (directory_.empty() || complained_) return {};
  const Status status = files_.contains(rank) ? Status() : open_file(rank);
  complained_ = !status.ok();
  if (complained_) return status.message();
  const int file = files_[rank].get();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      complained_ = true;
      return errno_status("cannot write to --output-dir, which ends here").message();
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

namespace {

constexpr std::chrono::milliseconds kPartialLineDelay{100};

}  // namespace

void Console::pass_on(int rank, int stream, std::string_view bytes) {
  if (stream == STDERR_FILENO) {
    error_.feed(rank, held_.feed(rank, bytes, now()));
  } else {
    output_.feed(rank, bytes);
  }
  const std::string complaint = files_.append(rank, bytes);
  if (!complaint.empty()) say(complaint);
  if (output_.has_partial() || error_.has_partial() || held_.has_partial())
    partial_deadline_ = now() + kPartialLineDelay;
}

void Console::print(int rank, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) error_.feed(rank, line + "\n");
}

void Console::say_after_output(const std::string& text) {
  flush_partial();
  say(text);
}

void Console::watch(PollSet& set, const std::function<void()>& on_gone) {
  set.add(output_.queue().empty() ? -1 : output_.fd(), POLLOUT, [this, on_gone] {
    if (!output_.write()) on_gone();
  });
  set.add(error_.queue().empty() ? -1 : error_.fd(), POLLOUT, [this] { (void)error_.write(); });
}

void Console::abandon_stuck() noexcept {
  if (output_.queue().full()) output_.abandon();
  if (error_.queue().full()) error_.abandon();
}

void Console::flush_partial() {
  for (const auto& [rank, text] : held_.partials()) error_.feed(rank, text);
  output_.flush_partial();
  error_.flush_partial();
}

/// Prints the error of a rank that goes on with its work, or takes its time to end.
void Console::print_held(int rank, const std::string& text) {
  const auto error = read_error(text);
  if (!error || error->trailing > 0) return pass_on_held(rank, text);
  if (error->error.consequence) return print(rank, {one_line(*error)});
  print(rank, error->shorter);
  if (error->left_out == 0) return;
  print(rank, {fmt::format("(--verbose shows {} more line{})", error->left_out,
                           error->left_out == 1 ? "" : "s")});
}

void Console::on_time(TimePoint time) {
  for (const auto& [rank, text] : held_.due(time)) print_held(rank, text);
  if (time < partial_deadline_) return;
  partial_deadline_ = kForever;
  flush_partial();
}

}  // namespace ronde
