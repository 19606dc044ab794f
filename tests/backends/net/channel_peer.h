// A rank for the channel's tests: collects frames and losses, sleeps as the engine does.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/ports/control_channel.h"

namespace ronde::net {

/// Keeps all that poll() delivers.
class Collector final : public ChannelSink {
 public:
  void on_frame(int from, std::span<const std::byte> frame) override {
    frames[from].emplace_back(frame.begin(), frame.end());
    ++count;
  }
  void on_peer_lost(int rank, const Status& reason) override { lost.emplace(rank, reason); }

  void on_peer_left(int rank, const Status& reason) override { left.emplace(rank, reason); }

  std::map<int, std::vector<std::vector<std::byte>>> frames;
  std::map<int, Status> lost;
  std::map<int, Status> left;
  std::size_t count = 0;
};

/// A frame whose bytes depend on sender, number and length.
inline std::vector<std::byte> make_frame(int sender, std::size_t number, std::size_t bytes) {
  std::vector<std::byte> frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame[i] =
        static_cast<std::byte>((i * 31 + number * 7 + static_cast<std::size_t>(sender)) & 255);
  }
  return frame;
}

/// Polls and sleeps until `done`; false after 60 s.
inline bool poll_until(ControlChannel& channel, ChannelSink& sink,
                       const std::function<bool()>& done, Sleeper who = Sleeper::kCaller) {
  const TimePoint limit = now() + std::chrono::seconds(60);
  while (!done()) {
    if (channel.poll(sink)) continue;
    if (done()) break;
    if (now() > limit) return false;
    channel.kick();
    const std::uint32_t ticket = channel.prepare_wait(who);
    if (channel.poll(sink)) continue;
    channel.kick();
    channel.wait(who, ticket, limit);
  }
  channel.kick();
  return true;
}

}  // namespace ronde::net
