// Anonymous shared memory (memfd): it has no name in any file system and goes with its last user.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "core/base/status.h"

namespace ronde::shm {

/// What the kernel can map as one.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// Owns a shared mapping.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A memory file of exactly `bytes` zeros, sealed against a change of size. None of it exists until
/// it is touched or reserved. Errors: kUnavailable.
Result<Descriptor> create_memory(std::size_t bytes);

/// Makes this part of a memory exist, so that no later access can fail; near the core that this
/// thread runs on where the machine has several NUMA nodes. Errors: kUnavailable.
Status reserve_memory(const Descriptor& memory, std::size_t offset, std::size_t bytes);

/// Opens what process `pid` holds as descriptor `fd`.
/// Errors: kUnavailable where that is hidden from us or is not such memory of `bytes`.
Result<Descriptor> open_memory(pid_t pid, int fd, std::size_t bytes);

/// Maps all of it for reading and writing, from a huge page's border on where it has that size.
/// Errors: kUnavailable.
Result<Mapping> map_memory(const Descriptor& memory, std::size_t bytes);

/// Asks the kernel to back the whole huge pages of a mapping, all of which exist, as such: fewer
/// page faults and fewer misses of the TLB in every process that maps them. Where that cannot be
/// (Linux before 6.1, no huge pages left) nothing changes. `data` is on a huge page's border.
void use_huge_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace ronde::shm
