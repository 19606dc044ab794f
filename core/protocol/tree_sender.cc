#include "core/protocol/tree_sender.h"

#include <algorithm>
#include <iterator>

namespace ronde {

void TreeSender::send_tick(std::uint64_t applied) {
  if (!has_tick_) return;
  const auto first = std::find_if(tick_.words.begin(), tick_.words.end(),
                                  [](std::uint64_t word) { return word != 0; });
  tick_.first_word = static_cast<std::uint32_t>(first - tick_.words.begin());
  tick_.words.erase(tick_.words.begin(), first);
  if (tick_.words.empty()) tick_.first_word = 0;
  tick_.acked = applied;
  writer_.write(tick_, [this](std::span<const std::byte> bytes) {
    frames_.push_back({place_.parent, {bytes.begin(), bytes.end()}});
  });
  tick_.clear();
  has_tick_ = false;
}

void TreeSender::forward(std::span<const std::byte> frame) {
  for (const int child : place_.children) {
    frames_.push_back({child, {frame.begin(), frame.end()}});
  }
}

void TreeSender::take(std::vector<OutFrame>& out) {
  taken_ += frames_.size();
  std::move(frames_.begin(), frames_.end(), std::back_inserter(out));
  frames_.clear();
}

}  // namespace ronde
