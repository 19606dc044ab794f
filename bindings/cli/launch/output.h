// The output of all ranks: two prefixed streams, and a file for each rank on request.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "bindings/cli/launch/line_printer.h"
#include "bindings/cli/launch/out_queue.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// Standard output or standard error of the launcher. Threads: one.
class Destination {
 public:
  explicit Destination(int fd) : fd_(fd) {}
  void feed(int rank, std::string_view bytes) { push(printer_.feed(rank, bytes)); }
  void own_line(std::string_view text) { push(printer_.own_line(text)); }
  void flush_partial() { push(printer_.flush_partial()); }
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
  /// Makes the directory. Errors: kInvalidArgument naming it.
  Status open(const std::filesystem::path& directory, int ranks);
  /// Appends; drops the bytes where there are no files, or the disk is full (said once).
  /// Returns a complaint for people, or nothing.
  std::string append(int rank, std::string_view bytes);

 private:
  std::map<int, FileDescriptor> files_;
  bool complained_ = false;
};

}  // namespace ronde
