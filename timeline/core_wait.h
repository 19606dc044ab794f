// How long a thread stood ready to run and had no core: what other work on its cores costs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/ports/event_sink.h"

namespace ronde {

/// Nanoseconds that the calling thread has been runnable without a core since it began; nothing
/// where the kernel does not tell (no /proc/thread-self/schedstat). Costs one read of it, 1 us.
std::optional<std::int64_t> core_wait_ns() noexcept;

/// Reports core_wait_ns() of the training thread as a counter: of the thread that marks steps, or
/// of the first one that waits where none does.
/// Threads: any.
class CoreWait {
 public:
  /// Before and after the calling thread is blocked; reports once a millisecond at most.
  void sample(EventSink& events) noexcept;
  /// At the end of a step, which the calling thread marks: reports always.
  void sample_step(EventSink& events) noexcept;

 private:
  void report(EventSink& events, std::int64_t time_ns) noexcept;

  std::atomic<int> thread_{0};  ///< The training thread, or 0.
  std::atomic<std::int64_t> reported_ns_{0};
};

}  // namespace ronde
