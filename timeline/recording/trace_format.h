// Events as lines of Chrome's trace format (JSON array form).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/mutex.h"
#include "timeline/recording/event_ring.h"
#include "timeline/recording/trace_head.h"

namespace ronde {

/// Appends nanoseconds as microseconds with three decimals.
void append_micros(std::string& out, std::int64_t ns);

/// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

/// The mark where a recording pauses. Pending operations are not recorded from there on.
inline constexpr std::string_view kPauseMark = "recording paused";
/// The mark where a recording resumes.
inline constexpr std::string_view kResumeMark = "recording goes on";

/// The mark where a worker's part in an epoch ends. Operations that are open there have failed.
inline constexpr std::string_view kEpochEndMark = "end of the epoch";

/// Finds texts in maps without building strings.
struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};
template <typename Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// Numbers of tracks by name, from 1. A worker's recordings of several epochs share them, so that
/// they fit into one row. Threads: any.
class TrackNumbers {
 public:
  /// The number of this name. New names get a new number.
  int of(std::string_view name) RONDE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  ByText<int> numbers_ RONDE_GUARDED_BY(mutex_);
};

/// Texts as JSON strings. Those that come again are not formatted again. Threads: one.
class QuotedTexts {
 public:
  /// Valid until the next call.
  const std::string& of(std::string_view text);

 private:
  ByText<std::string> known_;
};

/// Appends an event's fields as members of a JSON object, without its braces. Fields that are zero
/// or empty are left out. A use of EventArgs::fields.
class ArgsWriter {
 public:
  ArgsWriter(std::string& members, QuotedTexts& quoted) : members_(members), quoted_(quoted) {}
  void operator()(std::string_view name, std::uint64_t value);
  void operator()(std::string_view name, int value);
  /// Nanoseconds.
  void operator()(std::string_view name, std::int64_t time);
  void operator()(std::string_view name, std::string_view text);
  void operator()(std::string_view name, const std::optional<Collective>& collective);
  /// A counter's; null if it is no number.
  void value(double value);

 private:
  void begin(std::string_view name);

  std::string& members_;
  QuotedTexts& quoted_;
};

/// Formats the events of one rank. Each tensor gets a track (Chrome's thread) on first sight.
/// Threads: one.
class TraceFormatter {
 public:
  /// `numbers`: shared with other recordings; null: with none.
  explicit TraceFormatter(const RecordingInfo& info,
                          std::shared_ptr<TrackNumbers> numbers = nullptr)
      : row_(info.row()),
        start_ns_(info.steady_start_ns),
        numbers_(numbers ? std::move(numbers) : std::make_shared<TrackNumbers>()) {}

  /// Appends ",\n" and the event's line for each of its tracks. A new track's name precedes it.
  /// Ends without a begin are left out.
  void append(std::string& out, const Event& event);
  /// Appends the names of all tracks, for a file that continues another.
  void append_tracks(std::string& out) const;
  /// Ends all open spans at `time_ns` and appends kPauseMark.
  void append_pause(std::string& out, std::int64_t time_ns);
  /// Appends kEpochEndMark and ends all open spans at `time_ns`.
  void append_epoch_end(std::string& out, std::int64_t time_ns);
  /// Appends a mark with the number of events lost until `time_ns`.
  void append_dropped(std::string& out, std::uint64_t dropped, std::int64_t time_ns) const;

 private:
  struct Track {
    int id = 0;
    int open_spans = 0;
  };

  Track& track_of(std::string& out, std::string_view name);
  void append_name(std::string& out, const Track& track, std::string_view name) const;
  void append_mark(std::string& out, std::string_view text, std::int64_t time_ns,
                   std::string_view args = {}) const;
  void append_line(std::string& out, EventKind kind, int track) const;
  void end_open_spans(std::string& out, std::int64_t time_ns);
  void append_on(std::string& out, EventKind kind, std::string_view track);
  void write_facts(const Event& event);

  const int row_;
  const std::int64_t start_ns_;
  const std::shared_ptr<TrackNumbers> numbers_;
  ByText<Track> tracks_;
  QuotedTexts quoted_;
  std::string facts_;  ///< The current event's line, from its time on.
  std::string args_;   ///< Reused.
};

}  // namespace ronde
