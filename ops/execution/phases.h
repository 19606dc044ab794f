// Where the phases of one piece of work are reported: in lanes of the timeline of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/ports/event_sink.h"
#include "core/ports/phase_observer.h"

namespace ronde {

/// The names of the lanes of one process set; no tensor's lanes, as they have no dot.
struct PhaseLanes {
  explicit PhaseLanes(int set);
  std::string own;     ///< "phases", or "phases of set 3".
  std::string device;  ///< "gpu", ...: what the device did, by its own clock.
  std::string beside;  ///< "phases between hosts", ...: of a second thread.
};

/// Threads: one, but for the observer's beside(), which is a second thread's.
class Phases {
 public:
  /// `events` and `lanes` outlive it. `bytes`: of the work.
  Phases(EventSink& events, const PhaseLanes& lanes, std::size_t bytes)
      : beside_(events, lanes.beside, bytes, nullptr), own_(events, lanes.own, bytes, &beside_) {}

  [[nodiscard]] PhaseObserver& observer() noexcept { return own_; }
  /// The observer of a data plane's own collective: null where work is so small that telling of it
  /// would show in what it takes.
  [[nodiscard]] PhaseObserver* for_plane() noexcept;

  /// Nanoseconds of packing and unpacking so far.
  [[nodiscard]] std::int64_t pack_ns() const noexcept { return pack_ns_; }

 private:
  friend class Packing;

  class Track final : public PhaseObserver {
   public:
    Track(EventSink& events, std::string_view lane, std::size_t bytes, PhaseObserver* beside)
        : events_(events), lane_(lane), bytes_(bytes), beside_(beside) {}
    void begin(std::string_view phase) override { events_.begin(lane_, phase, {}); }
    void end() override { events_.end(lane_, {}); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
    PhaseObserver& beside() noexcept override { return beside_ == nullptr ? *this : *beside_; }

   private:
    EventSink& events_;
    const std::string_view lane_;
    const std::size_t bytes_;
    PhaseObserver* const beside_;
  };

  Track beside_;
  Track own_;
  std::int64_t pack_ns_ = 0;
};

/// A phase of copies into or out of a fusion buffer. Null `phases`: nothing is reported.
class Packing {
 public:
  Packing(Phases* phases, std::string_view name);
  ~Packing();
  Packing(const Packing&) = delete;
  Packing& operator=(const Packing&) = delete;

 private:
  Phases* const phases_;
  const Phase phase_;
  const std::int64_t start_ns_;
};

}  // namespace ronde
