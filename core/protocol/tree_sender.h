// The frames that one rank sends along the tree: ticks to its parent, all others to its children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/protocol/frames.h"
#include "core/protocol/tree.h"
#include "core/protocol/wire.h"

namespace ronde {

/// Encodes the frames of one rank and keeps them in order. Threads: one at a time.
class TreeSender {
 public:
  /// `place` outlives it.
  explicit TreeSender(const TreePlace& place) noexcept : place_(place) {}

  /// The tick that goes to the parent next; it goes once this was called.
  [[nodiscard]] TickFrame& tick() noexcept {
    has_tick_ = true;
    return tick_;
  }
  /// Sends the tick, if there is one. `applied`: the last batch that this rank has applied. Bits
  /// mean the slots as they are after it.
  void send_tick(std::uint64_t applied);
  /// Sends a frame to all children.
  template <typename Frame>
  void send_down(const Frame& frame) {
    if (place_.children.empty()) return;
    writer_.write(frame, [this](std::span<const std::byte> bytes) { forward(bytes); });
  }
  /// Sends a frame that is encoded to all children.
  void forward(std::span<const std::byte> frame);

  /// Appends the frames since the last call, in order.
  void take(std::vector<OutFrame>& out);
  /// How many frames were taken so far.
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

 private:
  const TreePlace& place_;
  TickFrame tick_;
  bool has_tick_ = false;
  FrameWriter writer_;
  std::vector<OutFrame> frames_;
  std::uint64_t taken_ = 0;
};

}  // namespace ronde
