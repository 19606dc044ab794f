// Parses one event's JSON object into the fields that reports use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "timeline/recording/trace_head.h"

namespace simdjson::dom {
class parser;
}

namespace ronde::report {

/// An event of a trace, at `at_ns`. Missing fields keep their defaults. The texts are valid until
/// the next parse.
struct TraceEvent : EventArgs, LauncherFacts {
  char phase = 0;  ///< 'B', 'E', 'i', 'C', 'M', ...
  std::int64_t pid = 0;
  std::int64_t tid = 0;
  bool timed = false;  ///< The event has a time.
  std::string_view name = {};
  double value = 0;                          ///< Counters only.
  std::string_view given_name = {};          ///< args.name: the name of a track or process.
  std::optional<std::int64_t> arrived = {};  ///< Rank whose submission a merge has marked here.
  std::uint64_t lost = 0;                    ///< Events lost until then.

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
  std::unique_ptr<simdjson::dom::parser> parser_;
};

}  // namespace ronde::report
