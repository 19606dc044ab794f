// One turn of an event loop: waits for descriptors and calls what serves them.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// The descriptors of one turn. Threads: one.
class PollSet {
 public:
  /// Calls `handler` in wait() if the descriptor has one of these events, or has ended. -1: never.
  void add(int fd, short events, std::function<void()> handler);
  /// Waits until a descriptor is ready or the deadline has passed. Calls the handlers in the order
  /// of add(), then forgets them. A handler may find that an earlier one closed its descriptor.
  void wait(TimePoint deadline);

 private:
  std::vector<pollfd> polled_;
  std::vector<std::function<void()>> handlers_;
};

}  // namespace ronde
