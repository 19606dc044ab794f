#include "bindings/cli/launch/poll_set.h"

#include <algorithm>
#include <utility>

namespace ronde {
namespace {

int poll_timeout_ms(TimePoint deadline) {
  if (deadline == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

}  // namespace

void PollSet::add(int fd, short events, std::function<void()> handler) {
  polled_.push_back({fd, events, 0});
  handlers_.push_back(std::move(handler));
}

void PollSet::wait(TimePoint deadline) {
  const int ready = ::poll(polled_.data(), polled_.size(), poll_timeout_ms(deadline));
  const auto polled = std::exchange(polled_, {});
  const auto handlers = std::exchange(handlers_, {});
  if (ready <= 0) return;
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) handlers[i]();
  }
}

}  // namespace ronde
