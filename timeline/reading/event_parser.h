// Parses one event's JSON object into the fields that reports use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/ports/event_sink.h"

namespace ronde::report {

/// An event of a trace. Missing fields keep their defaults. The texts are valid until the next
/// parse.
struct TraceEvent {
  char phase = 0;  ///< 'B', 'E', 'i', 'C', 'M', ...
  std::int64_t pid = 0;
  std::int64_t tid = 0;
  std::int64_t time_ns = 0;
  bool timed = false;  ///< The event has a time.
  std::string_view name = {};
  std::optional<Collective> collective = {};
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bundle = 0;
  std::int64_t pack_ns = 0;
  CompressionFacts compression = {};
  double value = 0;
  std::string_view algorithm = {};
  std::string_view backend = {};
  std::string_view given_name = {};          ///< args.name: the name of a track or process.
  std::optional<std::int64_t> arrived = {};  ///< Rank whose submission a merge has marked here.
  std::uint64_t lost = 0;                    ///< Events lost until then.
  // Fields of recordings' heads, and of the launcher's events in elastic jobs.
  int epoch = 0;
  int worker = 0;
  std::string_view worker_event = {};  ///< "died", ...
  std::string_view workers = {};       ///< Of an epoch, by rank: "1,3,4".
  std::string_view why = {};

  /// True if a recording begins here.
  [[nodiscard]] bool heads() const noexcept { return phase == 'M' && name == "recording"; }
  /// True if an operation is submitted here: its negotiation begins.
  [[nodiscard]] bool submits() const noexcept {
    return phase == 'B' && collective && name == traits_of(*collective).negotiation;
  }
};

/// Parses events. Threads: one.
class EventParser {
 public:
  EventParser();
  ~EventParser();
  EventParser(const EventParser&) = delete;
  EventParser& operator=(const EventParser&) = delete;

  /// Parses `text`, a JSON object followed by TraceReader::kPadding readable bytes. Errors:
  /// kInvalidArgument saying what is wrong.
  Result<TraceEvent> parse(std::string_view text);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde::report
