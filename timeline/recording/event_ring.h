// The bounded queue between the threads that report events and the one that writes them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/ports/event_sink.h"

namespace ronde {

/// Kinds of events, as letters of Chrome's trace format. kPause and kResume are Ronde's own:
/// nothing is recorded between them.
enum class EventKind : char {
  kBegin = 'B',
  kEnd = 'E',
  kInstant = 'i',
  kCounter = 'C',
  kPause = 'P',
  kResume = 'R'
};

/// One event as it is reported, at `at_ns`. The texts belong to the caller.
struct Event : EventArgs {
  EventKind kind = EventKind::kInstant;
  std::string_view track = {};
  std::string_view name = {};
  double value = 0;  ///< Counters only.
  std::span<const std::string_view> tracks =
      {};  ///< Instead of `track`: the event occurs on each of these.
};

/// A queue of many producers and one consumer, without locks. push() copies the event's texts once.
/// Long texts and lists of tracks take at most kHeapBytes of the heap.
class EventRing {
 public:
  static constexpr std::size_t kHeapBytes = std::size_t{16} << 20;

  /// `capacity` slots, a power of two.
  explicit EventRing(std::size_t capacity);
  ~EventRing();
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  /// Copies the event. Returns false if the ring is full. The last eighth is reserved for ends, so
  /// that open spans can end. Threads: any. Blocks: never.
  bool push(const Event& event) noexcept;

  /// Passes the oldest event to `use`. Returns false if there is none. The event's texts are valid
  /// during the call. Threads: the consumer.
  template <typename Use>
  bool pop(Use use) {
    Slot* slot = front();
    if (slot == nullptr) return false;
    use(slot->event());
    release(*slot);
    return true;
  }

  /// True if half of the ring is in use. Threads: any.
  [[nodiscard]] bool half_full() const noexcept;

 private:
  static constexpr std::size_t kInlineBytes = 128;

  /// Fields that few events have. They follow the text, so most events touch two cache lines.
  struct Rare {
    double value = 0;
    std::size_t tracks = 0;
    EventArgs args = {};  ///< All of them. Their texts are in the slot.
  };

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> turn{
        0};  ///< The position the slot is free for; that plus 1 once filled.
    std::int64_t at_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bundle = 0;
    std::unique_ptr<char[]> long_text;
    std::uint32_t heap_bytes = 0;
    std::uint32_t track_bytes = 0;
    std::uint32_t name_bytes = 0;
    int tensors = 0;
    EventKind kind = EventKind::kInstant;
    bool has_rare = false;
    std::optional<Collective> collective;
    /// The list of tracks, then all texts. Long ones are in `long_text`.
    alignas(std::string_view) char text[kInlineBytes] = {};
    Rare rare;

    [[nodiscard]] char* texts() noexcept { return heap_bytes > 0 ? long_text.get() : text; }
    /// The event. Its texts point into the slot.
    [[nodiscard]] Event event() noexcept;
  };

  [[nodiscard]] std::uint64_t filled(std::uint64_t position, std::uint64_t enough) const noexcept;
  void prefetch(std::uint64_t position) const noexcept;
  Slot* front() noexcept;
  void release(Slot& slot) noexcept;
  bool reserve(std::size_t bytes, bool ends) noexcept;
  static void fill(Slot& slot, const Event& event, std::size_t heap_bytes) noexcept;
  static void put_texts(Slot& slot, const Event& event) noexcept;

  const std::size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  mutable std::atomic<std::uint64_t> known_head_{
      0};  ///< The value of head_ that producers read last.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::size_t> heap_bytes_{0};
};

}  // namespace ronde
