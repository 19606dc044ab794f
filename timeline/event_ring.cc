#include "timeline/event_ring.h"

#include <array>
#include <cstring>
#include <new>

namespace ronde {
namespace {

using Texts = std::array<std::string_view Event::*, 4>;
constexpr Texts kTexts = {&Event::lane, &Event::name, &Event::algorithm, &Event::backend};

std::size_t text_bytes(const Event& event) noexcept {
  std::size_t sum = 0;
  for (const auto text : kTexts) sum += (event.*text).size();
  return sum;
}

}  // namespace

EventRing::EventRing(std::size_t capacity)
    : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
  for (std::size_t i = 0; i < capacity_; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
}

EventRing::~EventRing() = default;

/// A text that finds no memory is left out: an event without its name is better than none.
void EventRing::fill(Slot& slot, const Event& event) noexcept {
  const std::size_t bytes = text_bytes(event);
  char* to = slot.text;
  slot.event = event;
  if (bytes > kInlineBytes) {
    slot.long_text.reset(new (std::nothrow) char[bytes]);
    to = slot.long_text.get();
  }
  for (const auto text : kTexts) {
    const std::string_view from = event.*text;
    if (to == nullptr || from.empty()) {
      slot.event.*text = {};
      continue;
    }
    std::memcpy(to, from.data(), from.size());
    slot.event.*text = {to, from.size()};
    to += from.size();
  }
}

bool EventRing::push(const Event& event) noexcept {
  const bool ends = event.kind == EventKind::kEnd || event.kind == EventKind::kPause ||
                    event.kind == EventKind::kResume;
  const std::size_t limit = ends ? capacity_ : capacity_ - capacity_ / 8;
  std::uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    if (position - head_.load(std::memory_order_relaxed) >= limit) return false;
    Slot& slot = slots_[position & (capacity_ - 1)];
    if (slot.turn.load(std::memory_order_acquire) == position) {
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        fill(slot, event);
        slot.turn.store(position + 1, std::memory_order_release);
        return true;
      }
    } else {
      position = tail_.load(std::memory_order_relaxed);
    }
  }
}

EventRing::Slot* EventRing::front() noexcept {
  const std::uint64_t position = head_.load(std::memory_order_relaxed);
  Slot& slot = slots_[position & (capacity_ - 1)];
  return slot.turn.load(std::memory_order_acquire) == position + 1 ? &slot : nullptr;
}

void EventRing::release(Slot& slot) noexcept {
  const std::uint64_t position = head_.load(std::memory_order_relaxed);
  slot.long_text.reset();
  slot.turn.store(position + capacity_, std::memory_order_release);
  head_.store(position + 1, std::memory_order_relaxed);
}

bool EventRing::half_full() const noexcept {
  const std::uint64_t filled =
      tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  return filled >= capacity_ / 2 && filled <= capacity_;
}

}  // namespace ronde
