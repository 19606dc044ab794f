// One event's JSON object as the fields that reports use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/ports/event_sink.h"

namespace ronde::report {

/// An event of a trace. Fields that are not there keep their defaults. The texts live until the
/// parser is used again.
struct TraceEvent {
  char phase = 0;  ///< 'B', 'E', 'i', 'C', 'M', ...
  std::int64_t pid = 0;
  std::int64_t tid = 0;
  std::int64_t time_ns = 0;
  bool timed = false;  ///< It has a time.
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
  std::string_view given_name = {};          ///< args.name: of a lane or process.
  std::optional<std::int64_t> arrived = {};  ///< Rank whose submission a merge has marked here.
  std::uint64_t lost = 0;                    ///< Events lost until then.

  /// An operation is submitted: its negotiation begins.
  [[nodiscard]] bool submits() const noexcept {
    return phase == 'B' && collective && name == traits_of(*collective).negotiation;
  }
};

/// Threads: one.
class EventParser {
 public:
  EventParser();
  ~EventParser();
  EventParser(const EventParser&) = delete;
  EventParser& operator=(const EventParser&) = delete;

  /// Reads `text`, a JSON object, behind which TraceReader::kPadding bytes may be read.
  /// Errors: kInvalidArgument saying what is wrong.
  Result<TraceEvent> parse(std::string_view text);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde::report
