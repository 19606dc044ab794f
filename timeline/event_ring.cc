#include "timeline/event_ring.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace ronde {
namespace {

using Texts = std::array<std::string_view Event::*, 4>;
constexpr Texts kTexts = {&Event::lane, &Event::name, &Event::algorithm, &Event::backend};

std::size_t text_bytes(const Event& event) noexcept {
  std::size_t sum = 0;
  for (const auto text : kTexts) sum += (event.*text).size();
  for (const std::string_view lane : event.lanes) sum += sizeof(std::string_view) + lane.size();
  return sum;
}

/// Copies a text to `to`, which it moves on, and makes it that copy.
void move_text(std::string_view& text, char*& to) noexcept {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  text = {std::exchange(to, to + text.size()), text.size()};
}

/// The same for a list of lanes: first the list, then its texts.
void move_lanes(std::span<const std::string_view>& lanes, char*& to) noexcept {
  auto* const copies = reinterpret_cast<std::string_view*>(to);
  to += lanes.size_bytes();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    move_text(*std::construct_at(copies + i, lanes[i]), to);
  }
  lanes = {copies, lanes.size()};
}

}  // namespace

EventRing::EventRing(std::size_t capacity)
    : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
  for (std::size_t i = 0; i < capacity_; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
}

EventRing::~EventRing() = default;

/// A text that finds no memory is left out: an event without its name is better than none.
void EventRing::fill(Slot& slot, const Event& event, std::size_t heap_bytes) noexcept {
  char* to = slot.text;
  slot.event = event;
  slot.heap_bytes = heap_bytes;
  if (heap_bytes > 0) {
    slot.long_text.reset(new (std::nothrow) char[heap_bytes]);
    to = slot.long_text.get();
  }
  if (to == nullptr) {
    for (const auto text : kTexts) slot.event.*text = {};
    slot.event.lanes = {};
    return;
  }
  if (!event.lanes.empty()) move_lanes(slot.event.lanes, to);
  for (const auto text : kTexts) move_text(slot.event.*text, to);
}

/// Counts in what an event is to take of the heap; false where that is too much. As with slots, an
/// eighth is kept for ends.
bool EventRing::reserve(std::size_t bytes, bool ends) noexcept {
  if (bytes == 0) return true;
  const std::size_t limit = ends ? kHeapBytes : kHeapBytes - kHeapBytes / 8;
  if (heap_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit) return true;
  heap_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

bool EventRing::push(const Event& event) noexcept {
  const bool ends = event.kind == EventKind::kEnd || event.kind == EventKind::kPause ||
                    event.kind == EventKind::kResume;
  const std::size_t limit = ends ? capacity_ : capacity_ - capacity_ / 8;
  const std::size_t bytes = text_bytes(event);
  const std::size_t heap_bytes = bytes > kInlineBytes || !event.lanes.empty() ? bytes : 0;
  if (!reserve(heap_bytes, ends)) return false;
  std::uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    if (position - head_.load(std::memory_order_relaxed) >= limit) {
      heap_bytes_.fetch_sub(heap_bytes, std::memory_order_relaxed);
      return false;
    }
    Slot& slot = slots_[position & (capacity_ - 1)];
    if (slot.turn.load(std::memory_order_acquire) == position) {
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        fill(slot, event, heap_bytes);
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
  if (slot.heap_bytes > 0) {
    slot.long_text.reset();
    heap_bytes_.fetch_sub(slot.heap_bytes, std::memory_order_relaxed);
  }
  slot.turn.store(position + capacity_, std::memory_order_release);
  head_.store(position + 1, std::memory_order_relaxed);
}

bool EventRing::half_full() const noexcept {
  const std::uint64_t filled =
      tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  return filled >= capacity_ / 2 && filled <= capacity_;
}

}  // namespace ronde
