// Reads the events of a Chrome trace one by one, of any size, compressed by gzip or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

struct gzFile_s;  // of zlib

namespace ronde {

/// One event as in the file.
struct RawEvent {
  std::string_view text;     ///< A JSON object. Valid until the next call.
  std::uint64_t offset = 0;  ///< Of its first byte in the uncompressed text.
};

/// Reads both forms of the format: an array of events, or an object with "traceEvents". A truncated
/// file (its writer was killed) yields its whole events. Threads: one. Memory: one event, and a
/// buffer.
class TraceReader {
 public:
  /// Each event's text is followed by kPadding readable bytes of any content.
  static constexpr std::size_t kPadding = 64;

  /// Errors: kUnavailable naming the file.
  static Result<TraceReader> open(const std::string& path);
  TraceReader(TraceReader&& other) noexcept = default;
  TraceReader& operator=(TraceReader&&) = delete;

  /// The next event, or nothing at the end. Errors: kInvalidArgument naming file, byte and what was
  /// expected.
  Result<std::optional<RawEvent>> next();

  /// True if the end of the file is missing. Valid once next() has returned nothing.
  [[nodiscard]] bool truncated() const noexcept { return truncated_; }
  /// True if skip_to() is allowed: the file is not compressed.
  [[nodiscard]] bool can_skip() const noexcept;
  /// Skips to the first event whose line begins after byte `position`, which must lie ahead. Each
  /// event must have its own line, as the recorder writes them. Requires can_skip().
  void skip_to(std::uint64_t position);
  /// Position of the next byte of the text.
  [[nodiscard]] std::uint64_t position() const noexcept { return gone_ + at_; }
  /// Bytes read of the file on disk.
  [[nodiscard]] std::uint64_t file_bytes() const noexcept;

 private:
  enum class Place { kBefore, kInside, kAfter };
  struct Close {
    void operator()(gzFile_s* file) const;
  };

  TraceReader(gzFile_s* file, std::string path);
  bool fill();
  int take();
  int peek();
  int take_after_space();
  Status enter();
  Status find_events();
  bool skip_string();
  std::string take_string();
  void skip_value(int first);
  bool skip_object();
  [[nodiscard]] Status unexpected(int got, const char* wanted) const;

  std::unique_ptr<gzFile_s, Close> file_;
  std::string path_;
  std::string buffer_;      ///< Bytes read and still needed, then kPadding bytes.
  std::size_t filled_ = 0;  ///< Bytes of buffer_ in use.
  std::size_t at_ = 0;      ///< Next byte in buffer_.
  std::size_t kept_ = 0;    ///< First byte to keep, while keeping_.
  bool keeping_ = false;
  std::uint64_t gone_ = 0;  ///< Bytes of the text before buffer_.
  Place place_ = Place::kBefore;
  bool truncated_ = false;
};

/// Receives the bytes read and the total, every 16 MiB and at the end.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The size of a file; 0 if unknown.
std::uint64_t bytes_of(const std::string& path);

/// Counts bytes while the files are read one after the other, `times` times. `progress` may be
/// empty and must outlive it.
class ProgressTeller {
 public:
  ProgressTeller(const std::vector<std::string>& paths, const ReadProgress& progress,
                 std::uint64_t times = 1);

  /// Reports the bytes read of the current file.
  void tell(std::uint64_t bytes);
  /// Ends the current file of `bytes` bytes.
  void end(std::uint64_t bytes);

 private:
  const ReadProgress& progress_;
  const std::uint64_t times_;
  std::uint64_t total_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace ronde
