#include "backends/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "backends/shm/layout.h"
#include "core/base/file_limit.h"

namespace ronde::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status failed(const std::string& what) {
  return Status(Code::kUnavailable,
                fmt::format("shared memory: {}: {}", what, std::generic_category().message(errno)));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<Descriptor> create_memory(std::size_t bytes) {
  RONDE_RETURN_IF_ERROR(check_file_limit(bytes));
  Descriptor memory(memfd_create("ronde", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return failed("memfd_create");
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    return failed(fmt::format("{} bytes", bytes));
  }
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return failed("sealing");
  return memory;
}

Status reserve_memory(const Descriptor& memory, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return {};
  errno = posix_fallocate(memory.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return errno == 0 ? Status() : failed(fmt::format("{} bytes", bytes));
}

Result<Descriptor> open_memory(pid_t pid, int fd, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  Descriptor memory(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (memory.get() < 0) return failed(path);
  struct stat facts {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  const bool known = seals >= 0 && (seals & kSeals) == kSeals && fstat(memory.get(), &facts) == 0;
  if (!known || static_cast<std::size_t>(facts.st_size) != bytes) {
    return Status(Code::kUnavailable, fmt::format("shared memory: {} is another file", path));
  }
  return memory;
}

Result<Mapping> map_memory(const Descriptor& memory, std::size_t bytes) {
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
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: most kernels refuse it for shared memory
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
