// Parts of the event loops of launcher and agents: turns, output that waits, signs of life.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// The descriptors of one turn. Threads: one.
class PollSet {
 public:
  /// Calls `handler` in wait() if the descriptor has one of these events, or has ended. -1: never.
  void add(int fd, short events, std::function<void()> handler) {
    polled_.push_back({fd, events, 0});
    handlers_.push_back(std::move(handler));
  }
  /// Waits until a descriptor is ready or the deadline has passed. Calls the handlers in the order
  /// of add(), then forgets them. A handler may find that an earlier one closed its descriptor.
  void wait(TimePoint deadline) {
    const int ready = ::poll(polled_.data(), polled_.size(), timeout_ms(deadline));
    const auto polled = std::exchange(polled_, {});
    const auto handlers = std::exchange(handlers_, {});
    if (ready <= 0) return;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) handlers[i]();
    }
  }

 private:
  static int timeout_ms(TimePoint deadline) {
    if (deadline == kForever) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
  }

  std::vector<pollfd> polled_;
  std::vector<std::function<void()>> handlers_;
};

/// One side of a connection. Tells when to send a sign of life, and if the other side has been
/// silent for too long: the network may be cut. Threads: one.
class Heartbeat {
 public:
  static constexpr std::chrono::seconds kInterval{2};
  static constexpr std::chrono::seconds kLimit{10};  ///< Of silence; as for links between ranks.

  /// The connection is there.
  void start(TimePoint time) noexcept { next_ = last_ = received_ = time; }
  /// Something came from the other side; or this side does not read at present.
  void on_received(TimePoint time) noexcept { received_ = time; }
  /// True if a sign of life is to be sent now. Call it at deadline().
  bool due(TimePoint time) noexcept {
    if (time < deadline()) return false;
    if (time - last_ > 2 * kInterval) received_ = time;  // this process itself has not run
    last_ = time;
    next_ = time + kInterval;
    return true;
  }
  /// True if the other side is gone.
  [[nodiscard]] bool silent(TimePoint time) const noexcept {
    return received_ != kForever && time - received_ >= kLimit;
  }
  [[nodiscard]] TimePoint deadline() const noexcept { return next_; }

 private:
  TimePoint next_ = kForever;
  TimePoint last_ = kForever;
  TimePoint received_ = kForever;
};

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
