#include "timeline/recording/machine_probe.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/base/os/file_descriptor.h"
#include "timeline/recording/trace_head.h"

namespace ronde {
namespace {

constexpr std::int64_t kReportEveryNs = 1'000'000;

/// /proc/thread-self/schedstat of the calling thread, used by that thread only.
class SchedulerFacts {
 public:
  SchedulerFacts() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

  /// The second number in the file: on a core, ready without a core, times on a core.
  [[nodiscard]] std::optional<std::int64_t> core_wait_ns() const noexcept {
    char text[96];
    const ssize_t bytes = file_.valid() ? ::pread(file_.get(), text, sizeof text, 0) : -1;
    if (bytes <= 0) return std::nullopt;
    const char* const end = text + bytes;
    const auto gap = std::string_view(text, static_cast<std::size_t>(bytes)).find(' ');
    if (gap == std::string_view::npos) return std::nullopt;
    std::int64_t ns = 0;
    if (std::from_chars(text + gap + 1, end, ns).ec != std::errc()) return std::nullopt;
    return ns;
  }

 private:
  const FileDescriptor file_;
};

int this_thread() noexcept {
  thread_local const int kThread = ::gettid();
  return kThread;
}

}  // namespace

std::optional<std::int64_t> core_wait_ns() noexcept {
  thread_local const SchedulerFacts kFacts;
  return kFacts.core_wait_ns();
}

void CoreWait::sample(EventSink& events) noexcept {
  int training = 0;
  const int self = this_thread();
  if (!thread_.compare_exchange_strong(training, self, std::memory_order_relaxed) &&
      training != self) {
    return;
  }
  const std::int64_t time_ns = steady_ns();
  if (time_ns - reported_ns_.load(std::memory_order_relaxed) < kReportEveryNs) return;
  report(events, time_ns);
}

void CoreWait::sample_step(EventSink& events) noexcept {
  thread_.store(this_thread(), std::memory_order_relaxed);
  report(events, steady_ns());
}

void CoreWait::report(EventSink& events, std::int64_t time_ns) noexcept {
  reported_ns_.store(time_ns, std::memory_order_relaxed);
  if (const auto ns = core_wait_ns()) {
    events.counter(kCoreWaitCounter, static_cast<double>(*ns) / 1e6);
  }
}

namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;
constexpr int kCopies = 4;  // the first touches the pages

/// CPU time: excludes the time in which others had the core.
std::int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t ms_of(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

using Block = std::unique_ptr<std::byte, decltype(&std::free)>;

Block allocate() { return {static_cast<std::byte*>(std::malloc(kBytes)), &std::free}; }

}  // namespace

double process_cpu_ms() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(ms_of(time));
}

double measure_copy_gbps() {
  const Block from = allocate();
  const Block to = allocate();
  if (!from || !to) return 0;
  std::memset(from.get(), 1, kBytes);
  std::int64_t best_ns = 0;
  for (int i = 0; i < kCopies; ++i) {
    const std::int64_t start = thread_cpu_ns();
    std::memcpy(to.get(), from.get(), kBytes);
    __asm__ volatile("" : : "r"(to.get()) : "memory");  // keeps the compiler from dropping the copy
    const std::int64_t ns = std::max<std::int64_t>(1, thread_cpu_ns() - start);
    best_ns = best_ns == 0 ? ns : std::min(best_ns, ns);
  }
  return static_cast<double>(kBytes) / static_cast<double>(best_ns);
}

}  // namespace ronde
