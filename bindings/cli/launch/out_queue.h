// Bytes to be written to a descriptor once it takes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ronde {

/// Buffers output so that an event loop never blocks in write. Threads: one.
class OutQueue {
 public:
  /// Above this, callers should stop reading what they would push.
  static constexpr std::size_t kFullBytes = std::size_t{1} << 20;

  void push(std::string_view bytes) { buffer_.append(bytes); }
  /// Writes one piece; call it when poll() says that `fd` is writable. At most 4096 bytes, which a
  /// pipe that is writable takes without blocking, even where it is not O_NONBLOCK. False where
  /// the reader is gone.
  bool write_some(int fd);
  void drop() noexcept;
  [[nodiscard]] bool empty() const noexcept { return begin_ == buffer_.size(); }
  [[nodiscard]] bool full() const noexcept { return buffer_.size() - begin_ >= kFullBytes; }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace ronde
