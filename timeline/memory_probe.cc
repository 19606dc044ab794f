#include "timeline/memory_probe.h"

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace ronde {
namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;
constexpr int kCopies = 4;  // the first touches the pages

/// CPU time: excludes the time in which others had the core.
std::int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

using Block = std::unique_ptr<std::byte, decltype(&std::free)>;

Block allocate() { return {static_cast<std::byte*>(std::malloc(kBytes)), &std::free}; }

}  // namespace

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
