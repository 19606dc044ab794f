#include "timeline/recording/event_ring.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace ronde {
namespace {

using Texts = std::array<std::string_view Event::*, 4>;
constexpr std::size_t kCacheLine = 64;
constexpr Texts kTexts = {&Event::track, &Event::name, &Event::algorithm, &Event::backend};

std::size_t text_bytes(const Event& event) noexcept {
  std::size_t sum = 0;
  for (const auto text : kTexts) sum += (event.*text).size();
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

bool is_rare(const Event& event) noexcept {
  const CompressionFacts& facts = event.compression;
  return event.value != 0 || event.partition != 0 || event.pack_ns != 0 || facts.wire_bytes != 0 ||
         facts.compress_ns != 0 || facts.wire_ns != 0 || facts.decompress_ns != 0 ||
         !event.tracks.empty() || !event.algorithm.empty() || !event.backend.empty();
}

}  // namespace

EventRing::EventRing(std::size_t capacity)
    : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
  for (std::size_t i = 0; i < capacity_; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
}

EventRing::~EventRing() = default;

/// Without memory for the texts the event is kept without them.
void EventRing::fill(Slot& slot, const Event& event, std::size_t heap_bytes) noexcept {
  slot.time_ns = event.time_ns;
  slot.bytes = event.bytes;
  slot.bundle = event.bundle;
  slot.tensors = event.tensors;
  slot.kind = event.kind;
  slot.collective = event.collective;
  slot.heap_bytes = static_cast<std::uint32_t>(heap_bytes);
  slot.track_bytes = slot.name_bytes = 0;
  slot.has_rare = is_rare(event);
  if (slot.has_rare) {
    slot.rare = {.value = event.value,
                 .partition = event.partition,
                 .pack_ns = event.pack_ns,
                 .compression = event.compression};
  }
  char* to = slot.text;
  if (heap_bytes > 0) {
    slot.long_text.reset(new (std::nothrow) char[heap_bytes]);
    to = slot.long_text.get();
  }
  if (to != nullptr) put_texts(slot, event, to);
}

void EventRing::put_texts(Slot& slot, const Event& event, char* to) noexcept {
  if (slot.has_rare) {
    slot.rare.tracks = event.tracks.size();
    slot.rare.algorithm_bytes = event.algorithm.size();
    slot.rare.backend_bytes = event.backend.size();
  }
  slot.track_bytes = static_cast<std::uint32_t>(event.track.size());
  slot.name_bytes = static_cast<std::uint32_t>(event.name.size());
  put_tracks(event.tracks, to);
  for (const auto text : kTexts) put_text(event.*text, to);
}

Event EventRing::Slot::event() noexcept {
  Event event;
  event.kind = kind;
  event.collective = collective;
  event.time_ns = time_ns;
  event.bytes = bytes;
  event.bundle = bundle;
  event.tensors = tensors;
  char* from = long_text ? long_text.get() : text;
  if (has_rare) event.tracks = take_tracks(rare.tracks, from);
  event.track = take_text(track_bytes, from);
  event.name = take_text(name_bytes, from);
  if (!has_rare) return event;
  event.value = rare.value;
  event.partition = rare.partition;
  event.pack_ns = rare.pack_ns;
  event.compression = rare.compression;
  event.algorithm = take_text(rare.algorithm_bytes, from);
  event.backend = take_text(rare.backend_bytes, from);
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
