// A control channel without ranks behind it: tests give it frames and look at what it was told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/control_channel.h"

namespace ronde::test {

/// Plain members: the driving thread only.
class FakeChannel final : public ControlChannel {
 public:
  struct Frame {
    int rank = 0;  ///< Receiver or sender.
    std::vector<std::byte> bytes;
  };

  explicit FakeChannel(int rank = 0, int size = 2) {
    topology_.rank = rank;
    for (int i = 0; i < size; ++i) {
      topology_.peers.push_back({.host_index = 0, .host_name = "host", .pid = 100 + i});
    }
  }

  /// Puts the ranks on these hosts.
  void set_hosts(const std::vector<int>& hosts) {
    for (std::size_t i = 0; i < hosts.size(); ++i) topology_.peers[i].host_index = hosts[i];
  }

  const Topology& topology() const noexcept override { return topology_; }
  Status send(int to, std::span<const std::byte> frame) override {
    if (!send_status.ok()) return send_status;
    sent.push_back({to, {frame.begin(), frame.end()}});
    return {};
  }
  bool poll(ChannelSink& sink) override {
    if (!std::exchange(prepared_, false)) named_.reset();
    const auto frames = std::exchange(incoming, {});
    for (const Frame& frame : frames) sink.on_frame(frame.rank, frame.bytes);
    return !frames.empty();
  }
  bool kick() noexcept override {
    ++kicks;
    return has_room;
  }
  std::uint32_t prepare_wait(Sleeper who) noexcept override {
    prepared_ = true;
    named_ = who;
    MutexLock lock(mutex_);
    return wakes_[index(who)];
  }
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override {
    MutexLock lock(mutex_);
    ++waits_[index(who)];
    while (wakes_[index(who)] == ticket) {
      if (deadline == kForever) {
        woken_.wait(mutex_);
      } else if (!woken_.wait_until(mutex_, deadline)) {
        return;
      }
    }
  }
  void wake(Sleeper who) noexcept override {
    MutexLock lock(mutex_);
    ++wakes_[index(who)];
    woken_.notify_all();
  }
  void close() noexcept override {}

  /// The thread that peers wake; none while this rank polls.
  [[nodiscard]] std::optional<Sleeper> named() const noexcept { return named_; }
  /// How often wake() was called. Threads: any.
  std::uint32_t wakes(Sleeper who) {
    MutexLock lock(mutex_);
    return wakes_[index(who)];
  }
  /// How often wait() was called. Threads: any.
  std::uint32_t waits(Sleeper who) {
    MutexLock lock(mutex_);
    return waits_[index(who)];
  }

  std::vector<Frame> sent;
  std::deque<Frame> incoming;
  Status send_status;    ///< What send() returns.
  bool has_room = true;  ///< What kick() returns.
  int kicks = 0;

 private:
  static std::size_t index(Sleeper who) noexcept { return static_cast<std::size_t>(who); }

  Topology topology_;
  bool prepared_ = false;  // the next poll is the last look before sleeping
  std::optional<Sleeper> named_;
  Mutex mutex_;
  CondVar woken_;
  std::array<std::uint32_t, 2> wakes_ RONDE_GUARDED_BY(mutex_){};
  std::array<std::uint32_t, 2> waits_ RONDE_GUARDED_BY(mutex_){};
};

}  // namespace ronde::test
