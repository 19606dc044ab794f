// Where the phases of one piece of work are reported: in a lane of the timeline of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/ports/event_sink.h"

namespace ronde {

/// Threads: one.
class Phases {
 public:
  /// "phases", or "phases of set 3": no tensor's lane, as it has no dot.
  static std::string lane_of(int set);

  /// Both outlive it.
  Phases(EventSink& events, std::string_view lane) : events_(events), lane_(lane) {}

  /// Nanoseconds of the phases that pack or unpack, so far.
  [[nodiscard]] std::int64_t pack_ns() const noexcept { return pack_ns_; }

 private:
  friend class Phase;
  EventSink& events_;
  const std::string_view lane_;
  std::int64_t pack_ns_ = 0;
};

/// One phase: it lasts as long as this. Null `phases`: nothing is reported.
class Phase {
 public:
  Phase(Phases* phases, std::string_view name, bool packs);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Phases* const phases_;
  const bool packs_;
  const std::int64_t start_ns_;
};

}  // namespace ronde
