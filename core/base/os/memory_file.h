// Anonymous shared memory (memfd): it has no name in any file system and ends with its last user.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde {

/// Owns a mapping of memory.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes a memory file of exactly `bytes` zeros. Its pages exist once they are touched. It is
/// sealed against a change of its size, which would end its users by SIGBUS. Errors:
/// kResourceExhausted; kUnavailable beyond the limit of file sizes (ulimit -f), where the kernel
/// would end this process by SIGXFSZ.
Result<FileDescriptor> make_memory_file(const char* name, std::size_t bytes);

/// Makes a memory file that holds `text`, and that nobody can change. It is read from its start.
/// Errors: kUnavailable.
Result<FileDescriptor> make_memory_text(const char* name, std::string_view text);

/// True if the descriptor is a memory file of `bytes` that make_memory_file() made.
bool is_memory_file(int fd, std::size_t bytes) noexcept;

/// Maps all of it for reading and writing. Errors: kResourceExhausted.
Result<Mapping> map_memory_file(int fd, std::size_t bytes);

}  // namespace ronde
