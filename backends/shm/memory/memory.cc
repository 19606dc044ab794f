#include "backends/shm/memory/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "backends/shm/memory/layout.h"

namespace ronde::shm {
namespace {

Status failed(const std::string& what) {
  return errno_status(fmt::format("shared memory: {}", what));
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

}  // namespace ronde::shm
