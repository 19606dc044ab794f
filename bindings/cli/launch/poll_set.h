// One turn of an event loop: waits for descriptors and calls what serves them.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
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

}  // namespace ronde
