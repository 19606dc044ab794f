// A channel that does what another does; tests override what they watch or hold up.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "core/ports/control_channel.h"

namespace ronde::test {

class ForwardingChannel : public ControlChannel {
 public:
  explicit ForwardingChannel(std::unique_ptr<ControlChannel> inner) : inner_(std::move(inner)) {}
  const Topology& topology() const noexcept override { return inner_->topology(); }
  Status send(int to, std::span<const std::byte> frame) override { return inner_->send(to, frame); }
  bool poll(ChannelSink& sink) override { return inner_->poll(sink); }
  bool kick() noexcept override { return inner_->kick(); }
  std::uint32_t prepare_wait(Sleeper who) noexcept override { return inner_->prepare_wait(who); }
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override {
    inner_->wait(who, ticket, deadline);
  }
  void wake(Sleeper who) noexcept override { inner_->wake(who); }
  void close() noexcept override { inner_->close(); }

 private:
  const std::unique_ptr<ControlChannel> inner_;
};

}  // namespace ronde::test
