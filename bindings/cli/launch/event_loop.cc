#include "bindings/cli/launch/event_loop.h"

#include <unistd.h>

#include <cerrno>

namespace ronde {

bool OutQueue::write_some(int fd) {
  constexpr std::size_t kPiece = 4096;
  const std::size_t count = std::min(kPiece, buffer_.size() - begin_);
  const ssize_t written = ::write(fd, buffer_.data() + begin_, count);
  if (written < 0) return errno == EAGAIN || errno == EINTR;
  begin_ += static_cast<std::size_t>(written);
  if (begin_ == buffer_.size()) {
    drop();
  } else if (begin_ > kFullBytes && begin_ > buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return true;
}

void OutQueue::drop() noexcept {
  buffer_.clear();
  begin_ = 0;
}

}  // namespace ronde
