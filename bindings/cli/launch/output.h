// The output of all ranks: two prefixed streams, and a file for each rank on request.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// Buffers output so that an event loop never blocks in write. Threads: one.
class OutQueue {
 public:
  /// Above this, callers should stop reading what they would push.
  static constexpr std::size_t kFullBytes = std::size_t{1} << 20;

  void push(std::string_view bytes) { buffer_.append(bytes); }
  /// Writes one piece; call it when poll() says that `fd` is writable. At most 4096 bytes, which a
  /// pipe that is writable takes without blocking, even where it is not O_NONBLOCK. False where
  /// the reader is gone.
  bool write_some(int fd);
  void drop() noexcept;
  [[nodiscard]] bool empty() const noexcept { return begin_ == buffer_.size(); }
  [[nodiscard]] bool full() const noexcept { return buffer_.size() - begin_ >= kFullBytes; }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

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

}  // namespace ronde
