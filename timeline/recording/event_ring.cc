#include "timeline/recording/event_ring.h"

#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ronde {
namespace {

constexpr std::size_t kCacheLine = 64;

/// Calls `use(text)` for each text among the facts.
template <typename Args, typename Use>
void for_each_text(Args& args, Use use) noexcept {
  EventArgs::fields(args, [&](std::string_view, auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::string_view>) {
      use(field);
    }
  });
}

std::size_t text_bytes(const Event& event) noexcept {
  std::size_t sum = event.track.size() + event.name.size();
  for_each_text(event, [&](std::string_view text) { sum += text.size(); });
  for (const std::string_view track : event.tracks) sum += sizeof(std::string_view) + track.size();
  return sum;
}

/// Copies a text to `to` and advances it.
void put_text(std::string_view text, char*& to) noexcept {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  to += text.size();
}

/// Reads the text at `from` and advances it.
std::string_view take_text(std::size_t bytes, char*& from) noexcept {
  return {std::exchange(from, from + bytes), bytes};
}

/// Copies a list of tracks: the list, then its texts.
void put_tracks(std::span<const std::string_view> tracks, char*& to) noexcept {
  auto* const copies = reinterpret_cast<std::string_view*>(to);
  to += tracks.size_bytes();
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    std::construct_at(copies + i, to, tracks[i].size());
    put_text(tracks[i], to);
  }
}

/// Reads the list at `from` and advances it past the texts.
std::span<const std::string_view> take_tracks(std::size_t count, char*& from) noexcept {
  if (count == 0) return {};
  const std::span<const std::string_view> tracks(reinterpret_cast<std::string_view*>(from), count);
  from = const_cast<char*>(tracks.back().data()) + tracks.back().size();
  return tracks;
}

/// True if the event has more than the facts that each slot has room for.
bool is_rare(const Event& event) noexcept {
  EventArgs others = event;
  others.collective = {};
  others.bytes = others.bundle = 0;
  others.tensors = 0;
  others.at_ns = 0;
  return event.value != 0 || !event.tracks.empty() || others != EventArgs();
}

}  // namespace

EventRing::EventRing(std::size_t capacity)
    : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
  for (std::size_t i = 0; i < capacity_; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
}

EventRing::~EventRing() = default;

void EventRing::fill(Slot& slot, const Event& event, std::size_t heap_bytes) noexcept {
  slot.at_ns = event.at_ns;
  slot.bytes = event.bytes;
  slot.bundle = event.bundle;
  slot.tensors = event.tensors;
  slot.kind = event.kind;
  slot.collective = event.collective;
  slot.heap_bytes = static_cast<std::uint32_t>(heap_bytes);
  slot.has_rare = is_rare(event);
  if (slot.has_rare) {
    slot.rare = {.value = event.value, .tracks = event.tracks.size(), .args = event};
  }
  if (heap_bytes > 0) slot.long_text.reset(new (std::nothrow) char[heap_bytes]);
  put_texts(slot, event);
}

/// Without memory for the texts the event is kept without them.
void EventRing::put_texts(Slot& slot, const Event& event) noexcept {
  const bool fits = slot.heap_bytes == 0 || slot.long_text;
  slot.track_bytes = fits ? static_cast<std::uint32_t>(event.track.size()) : 0;
  slot.name_bytes = fits ? static_cast<std::uint32_t>(event.name.size()) : 0;
  if (!fits) {
    slot.rare.tracks = 0;
    for_each_text(slot.rare.args, [](std::string_view& text) { text = {}; });
    return;
  }
  char* to = slot.texts();
  put_tracks(event.tracks, to);
  put_text(event.track, to);
  put_text(event.name, to);
  if (!slot.has_rare) return;
  for_each_text(slot.rare.args, [&](std::string_view& text) {
    const char* const copy = to;
    put_text(text, to);
    text = {copy, text.size()};
  });
}

Event EventRing::Slot::event() noexcept {
  Event event;
  if (has_rare) static_cast<EventArgs&>(event) = rare.args;
  event.kind = kind;
  event.collective = collective;
  event.at_ns = at_ns;
  event.bytes = bytes;
  event.bundle = bundle;
  event.tensors = tensors;
  char* from = texts();
  if (has_rare) {
    event.value = rare.value;
    event.tracks = take_tracks(rare.tracks, from);
  }
  event.track = take_text(track_bytes, from);
  event.name = take_text(name_bytes, from);
  return event;
}

/// Reserves heap memory for an event. Returns false at the limit. An eighth is reserved for ends.
bool EventRing::reserve(std::size_t bytes, bool ends) noexcept {
  if (bytes == 0) return true;
  const std::size_t limit = ends ? kHeapBytes : kHeapBytes - kHeapBytes / 8;
  if (heap_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit) return true;
  heap_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

/// Filled slots, at least up to `enough`. Below that the consumer's position is not read again,
/// since reading a contended cache line is expensive.
std::uint64_t EventRing::filled(std::uint64_t position, std::uint64_t enough) const noexcept {
  const std::uint64_t known = known_head_.load(std::memory_order_relaxed);
  if (position - known < enough) return position - known;
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  known_head_.store(head, std::memory_order_relaxed);
  return position - head;
}

/// Prefetches the next slots, which the consumer wrote last.
void EventRing::prefetch(std::uint64_t position) const noexcept {
  constexpr std::uint64_t kAhead = 4;
  const auto* const slot =
      reinterpret_cast<const char*>(&slots_[(position + kAhead) & (capacity_ - 1)]);
  __builtin_prefetch(slot, 1);
  __builtin_prefetch(slot + kCacheLine, 1);
}

bool EventRing::push(const Event& event) noexcept {
  const bool ends = event.kind == EventKind::kEnd || event.kind == EventKind::kPause ||
                    event.kind == EventKind::kResume;
  const std::size_t limit = ends ? capacity_ : capacity_ - capacity_ / 8;
  const std::size_t bytes = text_bytes(event);
  const std::size_t heap_bytes = bytes > kInlineBytes || !event.tracks.empty() ? bytes : 0;
  if (!reserve(heap_bytes, ends)) return false;
  std::uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t count = filled(position, limit);
    if (count > capacity_) {  // other producers have advanced since the position was read
      position = tail_.load(std::memory_order_relaxed);
      continue;
    }
    if (count >= limit) {
      heap_bytes_.fetch_sub(heap_bytes, std::memory_order_relaxed);
      return false;
    }
    Slot& slot = slots_[position & (capacity_ - 1)];
    if (slot.turn.load(std::memory_order_acquire) == position) {
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        prefetch(position);
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
  const std::uint64_t count = filled(tail_.load(std::memory_order_relaxed), capacity_ / 2);
  return count >= capacity_ / 2 && count <= capacity_;
}

}  // namespace ronde
