// The frames of other ranks that arrive while the driving thread runs agreed work.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/ports/control_channel.h"

namespace ronde {

/// Keeps all that comes, in order. A failure of the job ends the work's waits at once.
/// Threads: the driving thread.
class HeldFrames final : public ChannelSink {
 public:
  /// `abort`: the job's. It outlives this.
  explicit HeldFrames(AbortToken& abort) : abort_(abort) {}

  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;

  /// Gives all to `sink`; true where there was anything.
  bool deliver(ChannelSink& sink);

 private:
  AbortToken& abort_;
  std::vector<std::function<void(ChannelSink&)>> held_;
};

}  // namespace ronde
