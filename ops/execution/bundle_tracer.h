// Reports bundles to the timeline: a span on the track of each tensor, and the phases inside it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/execution/phases.h"

namespace ronde {

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
  /// `events` outlives it and may be null.
  BundleTracer(const EventGate* events, int set) : events_(events), tracks_(set) {}

  /// Where events go; null while nothing is recorded.
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

  const EventGate* const events_;
  const PhaseTracks tracks_;
  std::vector<std::string_view> names_;  // kept: of the bundle's tensors
};

}  // namespace ronde
