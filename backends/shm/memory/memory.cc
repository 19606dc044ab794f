#include "backends/shm/memory/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/reach.h"
#include "core/base/clock.h"

namespace ronde::shm {
namespace {

Status failed(const std::string& what) {
  return errno_status(fmt::format("shared memory: {}", what));
}

/// The bytes that each rank copies in the smallest allreduce between two that uses the kernel. The
/// best of several tries counts, as others may take the core meanwhile.
constexpr std::size_t kBytes = std::size_t{256} << 10;
constexpr int kTries = 4;

template <typename Copy>
Duration best_of(Copy copy) {
  Duration best = Duration::max();
  for (int i = 0; i < kTries; ++i) {
    const TimePoint start = now();
    if (!copy()) return Duration::max();
    best = std::min(best, now() - start);
  }
  return best;
}

double measure() {
  const std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  const Duration by_kernel =
      best_of([&] { return can_read(getpid(), from.data(), to.data(), kBytes); });
  if (by_kernel == Duration::max()) return std::numeric_limits<double>::infinity();
  const Duration by_memcpy = best_of([&] {
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy must not be left out
    return true;
  });
  return static_cast<double>(by_kernel.count()) /
         static_cast<double>(std::max<Duration::rep>(by_memcpy.count(), 1));
}

/// Assumed where the system reports no cache.
constexpr long kUsualCache = 32L << 20;

/// Inputs, outputs and other programs share the cache. By measurement streaming pays from a fifth
/// of it on.
constexpr std::size_t kShare = 5;

std::size_t last_level_cache() noexcept {
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return static_cast<std::size_t>(kUsualCache);
}

}  // namespace

Result<FileDescriptor> create_memory(std::size_t bytes) {
  auto memory = make_memory_file("ronde", bytes);
  if (!memory.ok()) return Status(Code::kUnavailable, memory.status().message());
  return memory;
}

Status reserve_memory(const FileDescriptor& memory, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return {};
  errno = posix_fallocate(memory.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return errno == 0 ? Status() : failed(fmt::format("{} bytes", bytes));
}

Result<FileDescriptor> open_memory(pid_t pid, int fd, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  FileDescriptor memory(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (memory.get() < 0) return failed(path);
  if (!is_memory_file(memory.get(), bytes)) {
    return Status(Code::kUnavailable, fmt::format("shared memory: {} is another file", path));
  }
  return memory;
}

Result<Mapping> map_memory(const FileDescriptor& memory, std::size_t bytes) {
  // Address space is reserved with room to begin on a huge page's border, and the rest given back.
  const std::size_t room = bytes >= kHugePage ? bytes + kHugePage : bytes;
  void* const reserved =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return failed(fmt::format("mapping {} bytes", bytes));
  auto* const start = static_cast<std::byte*>(reserved);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  const std::size_t skipped = room > bytes && past > 0 ? kHugePage - past : 0;
  void* const data = mmap(start + skipped, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    munmap(reserved, room);
    errno = error;
    return failed(fmt::format("mapping {} bytes", bytes));
  }
  const std::size_t end = (skipped + bytes + kPage - 1) / kPage * kPage;
  if (skipped > 0) munmap(start, skipped);
  if (room > end) munmap(start + end, room - end);
  madvise(data, bytes, MADV_HUGEPAGE);  // best effort: most kernels refuse it for shared memory
  return Mapping(static_cast<std::byte*>(data), bytes);
}

void use_huge_pages(std::byte* data, std::size_t bytes) noexcept {
#if defined(MADV_COLLAPSE)
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;  // older headers, newer kernel
#endif
  const std::size_t whole = bytes / kHugePage * kHugePage;
  if (whole > 0) madvise(data, whole, kCollapse);
}

double kernel_copy_cost() {
  static const double kCost = measure();
  return kCost;
}

bool outgrows_caches(int ranks, std::size_t bytes) noexcept {
  static const std::size_t kLimit = last_level_cache() / kShare;
  return static_cast<std::size_t>(ranks) * bytes >= kLimit;
}

}  // namespace ronde::shm
