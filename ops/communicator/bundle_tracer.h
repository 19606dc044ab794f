// Reports bundles to the timeline: a span on the track of each tensor, with the phases of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "core/ports/phases.h"

namespace ronde {

/// The phases of copies into and out of a fusion buffer.
inline constexpr std::string_view kPackPhase = "PACK";
inline constexpr std::string_view kUnpackPhase = "UNPACK";

/// The names of the tracks of one process set; no tensor's tracks, as they have no dot.
struct PhaseTracks {
  /// `set`: the set's name in timelines; empty: the global set.
  explicit PhaseTracks(std::string_view set);
  std::string own;     ///< "phases", or "phases of process set 3".
  std::string device;  ///< "gpu", ...: what the device did, by its own clock.
  std::string beside;  ///< "phases between hosts", ...: of a second thread.
};

/// Reports the phases of one piece of work. Threads: one, but for the observer's beside(), which is
/// a second thread's.
class Phases {
 public:
  /// `events` and `tracks` outlive it. `bytes`: of the work.
  Phases(EventSink& events, const PhaseTracks& tracks, std::size_t bytes)
      : beside_(events, tracks.beside, bytes, nullptr), own_(events, tracks.own, bytes, &beside_) {}

  [[nodiscard]] PhaseObserver& observer() noexcept { return own_; }
  /// Nanoseconds in kPackPhase and kUnpackPhase so far.
  [[nodiscard]] std::int64_t pack_ns() const noexcept { return own_.pack_ns(); }

 private:
  class Track final : public PhaseObserver {
   public:
    Track(EventSink& events, std::string_view name, std::size_t bytes, PhaseObserver* beside)
        : events_(events), name_(name), bytes_(bytes), beside_(beside) {}
    void begin(std::string_view phase) override;
    void end() override;
    [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
    PhaseObserver& beside() noexcept override { return beside_ == nullptr ? *this : *beside_; }
    [[nodiscard]] std::int64_t pack_ns() const noexcept { return pack_ns_; }

   private:
    EventSink& events_;
    const std::string_view name_;
    const std::size_t bytes_;
    PhaseObserver* const beside_;
    std::int64_t packing_since_ns_ = 0;  // 0: nothing is packed, which has no phases inside
    std::int64_t pack_ns_ = 0;
  };

  Track beside_;
  Track own_;
};

/// How one work of a bundle is done.
struct TracedWork {
  std::size_t bytes = 0;
  std::string_view algorithm = {};
  std::string_view path = {};        ///< The communicator, or the path of a device's work.
  std::optional<double> ratio = {};  ///< Bytes that go in for each byte that travels.
};

/// For one group. Threads: one at a time.
class BundleTracer {
 public:
  /// `events` outlives it and may be null. `set`: as PhaseTracks has it.
  BundleTracer(const EventSwitch* events, std::string_view set) : events_(events), tracks_(set) {}

  /// The sink of events; null while nothing is recorded.
  [[nodiscard]] EventSink* sink() const noexcept {
    return events_ == nullptr ? nullptr : events_->get();
  }

  /// Runs `move(PhaseObserver*)` between the events of the bundle's tensors. Its observer is null
  /// while nothing is recorded. `facts` are read when it has ended.
  template <typename Move>
  Status trace(const Bundle& bundle, const TracedWork& work, const CompressionFacts& facts,
               Move move) {
    EventSink* const events = sink();
    if (events == nullptr) return move(nullptr);
    begin(*events, bundle, work);
    Phases phases(*events, tracks_, work.bytes);
    Status status = move(&phases.observer());
    events->end_all(names_, {.pack_ns = phases.pack_ns(), .compression = facts});
    return status;
  }

 private:
  void begin(EventSink& events, const Bundle& bundle, const TracedWork& work);

  const EventSwitch* const events_;
  const PhaseTracks tracks_;
  std::vector<std::string_view> names_;  // kept: of the bundle's tensors
};

}  // namespace ronde
