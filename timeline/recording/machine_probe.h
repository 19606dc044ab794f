// Probes of the machine: time without a core, speed of memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

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

/// The counter of the CPU time that all threads of the process have used.
inline constexpr std::string_view kCpuCounter = "CPU time in ms";
/// Its value now; whole milliseconds.
double process_cpu_ms() noexcept;

/// The counter of measure_copy_gbps(). Written once, when a recording ends.
inline constexpr std::string_view kMemoryCopyCounter = "memory copy in GB/s";
/// Counters of the CPU time that compression takes for each byte of fp32 in an allreduce.
inline constexpr std::string_view kFp16CodingCounter = "fp16 coding in ns per byte";
inline constexpr std::string_view kInt8CodingCounter = "int8 coding in ns per byte";

/// Bytes copied per nanosecond of CPU time: the best of a few copies of 8 MB. 0 if memory is short.
/// Takes about 10 ms.
double measure_copy_gbps();

}  // namespace ronde
