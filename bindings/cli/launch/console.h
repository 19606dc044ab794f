// The terminal of a launcher: the output of all ranks as two prefixed streams, and a file for each
// rank on request.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/cli/launch/held_errors.h"
#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// Merges the streams of all ranks that go to one destination. A line is passed on when it ends in
/// '\n' or '\r'; what stays unfinished (a prompt, a progress bar that ends without either) is
/// passed on by flush_partial(). Threads: one.
class LinePrinter {
 public:
  /// Takes in bytes of `rank` and returns what is to be written now.
  std::string feed(int rank, std::string_view bytes);
  /// A line of the launcher's own, as a line to itself.
  std::string own_line(std::string_view text);
  /// The unfinished line, as far as it has come.
  std::string flush_partial();
  [[nodiscard]] bool has_partial() const noexcept;
  /// From now on begins each line with the time at which it is passed on.
  void show_times() noexcept { times_ = true; }

 private:
  struct Stream {
    std::string pending;
    bool after_return = false;  ///< The last piece ended in '\r': a '\n' now ends the same line.
  };
  static constexpr int kNobody = -1;

  std::string begin_line(int rank);
  std::string end_foreign_line(int rank);

  std::map<int, Stream> streams_;
  bool times_ = false;
  int open_rank_ = kNobody;  ///< The rank whose unfinished line the destination shows.
};

/// Standard output or standard error of the launcher. Threads: one.
class Destination {
 public:
  explicit Destination(int fd) : fd_(fd) {}
  void feed(int rank, std::string_view bytes) { push(printer_.feed(rank, bytes)); }
  void own_line(std::string_view text) { push(printer_.own_line(text)); }
  void flush_partial() { push(printer_.flush_partial()); }
  void show_times() noexcept { printer_.show_times(); }
  /// Writes one piece. False where the reader is gone; from then on everything is dropped.
  bool write();
  /// Gives up what has not been written.
  void abandon() noexcept { queue_.drop(); }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool has_partial() const noexcept { return printer_.has_partial(); }
  [[nodiscard]] const OutQueue& queue() const noexcept { return queue_; }

 private:
  void push(std::string_view bytes) {
    if (!gone_) queue_.push(bytes);
  }

  const int fd_;
  bool gone_ = false;
  LinePrinter printer_;
  OutQueue queue_;
};

/// One file per rank, with its standard output and error as they came, without prefix.
class RankFiles {
 public:
  /// Makes the directory and the files of ranks 0 .. ranks - 1. Other ranks' files are made when
  /// they write. Errors: kInvalidArgument naming it.
  Status open(const std::filesystem::path& directory, int ranks, bool keep_old = false);
  /// Appends; drops the bytes where there are no files, or the disk is full (said once).
  /// Returns a complaint for people, or nothing.
  std::string append(int rank, std::string_view bytes);

 private:
  Status open_file(int rank);

  std::filesystem::path directory_;  ///< Empty: no files.
  bool keep_old_ = false;            ///< Append to files that there are.
  std::map<int, FileDescriptor> files_;
  bool complained_ = false;
};

/// Prints the output of all ranks and the launcher's own lines. Threads: one.
class Console {
 public:
  /// Also writes each rank's output to a file. Errors: kInvalidArgument naming the folder.
  Status keep_files(const std::filesystem::path& directory, int ranks, bool append) {
    return files_.open(directory, ranks, append);
  }
  /// Begins each line of a rank with the time.
  void show_times() noexcept {
    output_.show_times();
    error_.show_times();
  }
  /// Prints tracebacks at once and whole, instead of holding them back.
  void hold_nothing() { held_.hold_nothing(); }
  /// A piece of a rank's output; stream 1 or 2.
  void pass_on(int rank, int stream, std::string_view bytes);
  /// Lines of a rank's standard error that were held back, or stand for such lines.
  void print(int rank, const std::vector<std::string>& lines);
  /// Text of a rank's standard error that was held back.
  void pass_on_held(int rank, std::string_view text) { error_.feed(rank, text); }
  /// The errors that are held back.
  [[nodiscard]] HeldErrors& held() noexcept { return held_; }
  /// A line of the launcher's own, on standard error.
  void say(const std::string& text) { error_.own_line("ronde run: " + text); }
  /// Says it below all that the ranks have written.
  void say_after_output(const std::string& text);

  /// Writes when the destinations are ready. Calls `on_gone` if nobody reads standard output.
  void watch(PollSet& set, const std::function<void()>& on_gone);
  /// True while too much waits for a destination: ranks should be held up then.
  [[nodiscard]] bool stuck() const noexcept {
    return output_.queue().full() || error_.queue().full();
  }
  [[nodiscard]] bool empty() const noexcept {
    return output_.queue().empty() && error_.queue().empty();
  }
  /// Gives up what a destination does not take.
  void abandon_stuck() noexcept;
  void flush_partial();

  /// The time at which unfinished lines, or tracebacks, are printed.
  [[nodiscard]] TimePoint deadline() const noexcept {
    return std::min(partial_deadline_, held_.deadline());
  }
  void on_time(TimePoint time);

 private:
  void print_held(int rank, const std::string& text);

  Destination output_{STDOUT_FILENO};
  Destination error_{STDERR_FILENO};
  RankFiles files_;
  HeldErrors held_;
  TimePoint partial_deadline_ = kForever;
};

}  // namespace ronde
