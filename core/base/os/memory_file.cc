#include "core/base/os/memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ronde {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status check_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (bytes <= limit.rlim_cur) return {};
  return {Code::kUnavailable,
          fmt::format("shared memory: {} bytes are more than a file may have here ({}, ulimit -f)",
                      bytes, limit.rlim_cur)};
}

Status exhausted(std::string_view what) {
  return errno_status(fmt::format("shared memory: {}", what), Code::kResourceExhausted);
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<FileDescriptor> make_memory_file(const char* name, std::size_t bytes) {
  RONDE_RETURN_IF_ERROR(check_file_limit(bytes));
  FileDescriptor memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return exhausted("memfd_create");
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    return exhausted(fmt::format("{} bytes", bytes));
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return exhausted("sealing");
  return memory;
}

Result<FileDescriptor> make_memory_text(const char* name, std::string_view text) {
  FileDescriptor memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return errno_status("cannot make a memory file");
  if (::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::fcntl(memory.get(), F_ADD_SEALS, kSeals | F_SEAL_WRITE) != 0) {
    return errno_status("cannot write a memory file");
  }
  return memory;
}

bool is_memory_file(int fd, std::size_t bytes) noexcept {
  struct stat facts {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && ::fstat(fd, &facts) == 0 &&
         static_cast<std::size_t>(facts.st_size) == bytes;
}

Result<Mapping> map_memory_file(int fd, std::size_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return exhausted(fmt::format("mapping {} bytes", bytes));
  return Mapping(static_cast<std::byte*>(data), bytes);
}

}  // namespace ronde
