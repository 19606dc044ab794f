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

/// What an event is; the letter that Chrome's trace format has for it, but for kPause and kResume:
/// between these nothing is recorded.
enum class EventKind : char {
  kBegin = 'B',
  kEnd = 'E',
  kInstant = 'i',
  kCounter = 'C',
  kPause = 'P',
  kResume = 'R'
};

/// One event as it is reported. The texts belong to the caller.
struct Event {
  EventKind kind = EventKind::kInstant;
  std::int64_t time_ns = 0;  ///< Steady clock.
  std::optional<Collective> collective = {};
  std::uint64_t bytes = 0;
  double value = 0;  ///< Of a counter.
  int tensors = 0;
  std::uint64_t bundle = 0;
  int partition = 0;
  std::int64_t pack_ns = 0;
  CompressionFacts compression = {};
  std::string_view lane = {};
  std::span<const std::string_view> lanes = {};  ///< In place of `lane`: the same on each of them.
  std::string_view name = {};
  std::string_view algorithm = {};
  std::string_view backend = {};
};

/// Many producers, one consumer, no locks. An event costs its producer one copy of its texts; long
/// texts and lists of lanes go to the heap, of which they take kHeapBytes at most.
class EventRing {
 public:
  static constexpr std::size_t kHeapBytes = std::size_t{16} << 20;

  /// `capacity` slots, a power of two.
  explicit EventRing(std::size_t capacity);
  ~EventRing();
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  /// Takes a copy; false where there is no room. The last eighth is kept for ends, so that spans
  /// which have begun can end. Threads: any. Blocks: never.
  bool push(const Event& event) noexcept;

  /// Hands the oldest event to `use` and returns true, or false where there is none. The event's
  /// texts live during the call. Threads: the consumer.
  template <typename Use>
  bool pop(Use use) {
    Slot* slot = front();
    if (slot == nullptr) return false;
    use(slot->event());
    release(*slot);
    return true;
  }

  /// Whether the consumer had better hurry. Threads: any.
  [[nodiscard]] bool half_full() const noexcept;

 private:
  static constexpr std::size_t kInlineBytes = 128;

  /// What few events have. It lies behind the text, so that most touch two cache lines of a slot.
  struct Rare {
    double value = 0;
    int partition = 0;
    std::int64_t pack_ns = 0;
    CompressionFacts compression = {};
    std::size_t lanes = 0;
    std::size_t algorithm_bytes = 0;
    std::size_t backend_bytes = 0;
  };

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> turn{0};  ///< Position it is free for, or that position + 1: filled.
    std::int64_t time_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bundle = 0;
    std::unique_ptr<char[]> long_text;
    std::uint32_t heap_bytes = 0;
    std::uint32_t lane_bytes = 0;
    std::uint32_t name_bytes = 0;
    int tensors = 0;
    EventKind kind = EventKind::kInstant;
    bool has_rare = false;
    std::optional<Collective> collective;
    /// Or in `long_text`: the list of lanes, then all texts.
    alignas(std::string_view) char text[kInlineBytes] = {};
    Rare rare;

    /// The event, whose texts are the slot's.
    [[nodiscard]] Event event() noexcept;
  };

  [[nodiscard]] std::uint64_t filled(std::uint64_t position, std::uint64_t enough) const noexcept;
  void prefetch(std::uint64_t position) const noexcept;
  Slot* front() noexcept;
  void release(Slot& slot) noexcept;
  bool reserve(std::size_t bytes, bool ends) noexcept;
  static void fill(Slot& slot, const Event& event, std::size_t heap_bytes) noexcept;
  static void put_texts(Slot& slot, const Event& event, char* to) noexcept;

  const std::size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  mutable std::atomic<std::uint64_t> known_head_{0};  ///< What producers last read of head_.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::atomic<std::size_t> heap_bytes_{0};
};

}  // namespace ronde
