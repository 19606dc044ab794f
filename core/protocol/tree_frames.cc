#include "core/protocol/tree_frames.h"

#include <algorithm>
#include <iterator>

namespace ronde {

void TreeFrames::send_up(TickDraft& draft, std::uint64_t acked) {
  if (draft.is_empty) return;
  TickFrame& tick = draft.frame;
  const auto first = std::find_if(tick.words.begin(), tick.words.end(),
                                  [](std::uint64_t word) { return word != 0; });
  tick.first_word = static_cast<std::uint32_t>(first - tick.words.begin());
  tick.words.erase(tick.words.begin(), first);
  if (tick.words.empty()) tick.first_word = 0;
  tick.acked = acked;
  writer_.write(tick, [this](std::span<const std::byte> bytes) {
    frames_.push_back({place_.parent, {bytes.begin(), bytes.end()}});
  });
  tick.clear();
  draft.is_empty = true;
}

void TreeFrames::forward(std::span<const std::byte> frame) {
  for (const int child : place_.children) {
    frames_.push_back({child, {frame.begin(), frame.end()}});
  }
}

void TreeFrames::take(std::vector<OutFrame>& out) {
  taken_ += frames_.size();
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

}  // namespace ronde
