// Reads the events of a Chrome trace one by one, whatever its size, compressed by gzip or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace ronde {

/// One event as it stands in the file.
struct RawEvent {
  std::string_view text;     ///< A JSON object. It lives until the next one is read.
  std::uint64_t offset = 0;  ///< Its first byte in the text, which is the file if not compressed.
};

/// Takes both forms of the format: an array of events, and an object with "traceEvents". A file
/// whose end is missing (its writer was killed) gives the events that are whole.
/// Threads: one. Memory: one event, and a buffer.
class TraceReader {
 public:
  /// kPadding bytes that may be read, whatever they hold, follow each event's text.
  static constexpr std::size_t kPadding = 64;

  /// Errors: kUnavailable naming the file.
  static Result<TraceReader> open(const std::string& path);
  ~TraceReader();
  TraceReader(TraceReader&& other) noexcept;
  TraceReader& operator=(TraceReader&&) = delete;

  /// The next event, or nothing at the end. Errors: kInvalidArgument naming the file, the byte and
  /// what was expected there.
  Result<std::optional<RawEvent>> next();

  /// Whether the end of the file was missing; once next() has given nothing.
  [[nodiscard]] bool truncated() const noexcept { return truncated_; }
  /// Whether skip_to() works: the file is not compressed.
  [[nodiscard]] bool can_skip() const noexcept;
  /// Goes on with the first event whose line begins after byte `position`, which was not read yet;
  /// events have lines of their own, as the recorder's do. Only where can_skip().
  void skip_to(std::uint64_t position);
  /// The next byte of the text.
  [[nodiscard]] std::uint64_t position() const noexcept { return gone_ + at_; }
  /// Bytes of the file, as it lies on the disk, that have been read.
  [[nodiscard]] std::uint64_t file_bytes() const noexcept;

 private:
  enum class Place { kBefore, kInside, kAfter };
  struct Source;

  TraceReader(std::unique_ptr<Source> source, std::string path);
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

  std::unique_ptr<Source> source_;
  std::string path_;
  std::string buffer_;      ///< What was read and is still needed, and kPadding bytes.
  std::size_t filled_ = 0;  ///< Of it.
  std::size_t at_ = 0;      ///< The next byte.
  std::size_t kept_ = 0;    ///< Where what must stay begins, while keeping_.
  bool keeping_ = false;
  std::uint64_t gone_ = 0;  ///< Bytes before the buffer.
  Place place_ = Place::kBefore;
  bool truncated_ = false;
};

}  // namespace ronde
