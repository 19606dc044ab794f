// The frames that one rank's negotiation sends along the tree: ticks up, all others down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/tree.h"
#include "core/protocol/wire.h"

namespace ronde {

/// A frame for another rank.
struct OutFrame {
  int to = 0;
  std::vector<std::byte> bytes;
};

/// Encodes frames and keeps them until they are taken. Threads: one at a time.
class TreeFrames {
 public:
  /// `place` outlives it.
  explicit TreeFrames(const TreePlace& place) noexcept : place_(place) {}

  /// Sends the draft to the parent, unless it is empty, and begins another one. `acked`: the last
  /// batch that this rank has processed.
  void send_up(TickDraft& draft, std::uint64_t acked);
  /// Sends a frame to all children.
  template <typename Frame>
  void send_down(const Frame& frame) {
    writer_.write(frame, [this](std::span<const std::byte> bytes) { forward(bytes); });
  }
  /// Sends a frame that is encoded to all children.
  void forward(std::span<const std::byte> frame);

  /// Appends the frames since the last call, in order.
  void take(std::vector<OutFrame>& out);
  /// The number of frames taken so far.
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

 private:
  const TreePlace& place_;
  FrameWriter writer_;
  std::vector<OutFrame> frames_;
  std::uint64_t taken_ = 0;
};

}  // namespace ronde
