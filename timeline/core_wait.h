// Time in which a thread was runnable without a core, because other work used the cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/ports/event_sink.h"

namespace ronde {

/// Nanoseconds that the calling thread has been runnable without a core since it began. Nothing if
/// the kernel lacks /proc/thread-self/schedstat. Reads that file, which takes 1 us.
std::optional<std::int64_t> core_wait_ns() noexcept;

/// Reports core_wait_ns() of the training thread as a counter. The training thread marks steps. If
/// none does, it is the first thread that waits.
/// Threads: any.
class CoreWait {
 public:
  /// Call before and after the calling thread blocks. Reports at most once a millisecond.
  void sample(EventSink& events) noexcept;
  /// Call when the calling thread marks the end of a step. Always reports.
  void sample_step(EventSink& events) noexcept;

 private:
  void report(EventSink& events, std::int64_t time_ns) noexcept;

  std::atomic<int> thread_{0};  ///< The training thread, or 0.
  std::atomic<std::int64_t> reported_ns_{0};
};

}  // namespace ronde
