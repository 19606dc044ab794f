// Totals of this rank since it joined. They are always counted; an operation costs a few additions.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/engine/records/operation_ring.h"
#include "core/ports/mean_errors.h"
#include "core/protocol/request.h"

namespace ronde {

inline constexpr std::size_t kMeterKinds = static_cast<std::size_t>(kRecvKind) + 1;
inline constexpr std::size_t kMeterCodes = static_cast<std::size_t>(kLastCode) + 1;

/// A count that many threads add to. Threads: any.
class Counter {
 public:
  void add(std::uint64_t value = 1) noexcept { value_.fetch_add(value, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// How often durations fell below each of some bounds. Threads: any.
class DurationHistogram {
 public:
  /// Upper bounds in nanoseconds: 1, 2.5 and 5 of each decade from 10 us to 10 s.
  static constexpr std::array<std::int64_t, 19> kBoundsNs = {
      10'000,       25'000,        50'000,        100'000,       250'000,
      500'000,      1'000'000,     2'500'000,     5'000'000,     10'000'000,
      25'000'000,   50'000'000,    100'000'000,   250'000'000,   500'000'000,
      1000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

  void add(std::int64_t ns) noexcept;
  /// How many fell into bucket `index`: above the bound before and at most its own; the last one,
  /// kBoundsNs.size(), has no bound.
  [[nodiscard]] std::uint64_t in_bucket(std::size_t index) const noexcept {
    return buckets_[index].get();
  }
  [[nodiscard]] std::uint64_t sum_ns() const noexcept { return sum_ns_.get(); }

 private:
  std::array<Counter, kBoundsNs.size() + 1> buckets_;
  Counter sum_ns_;
};

/// The counts of the operations of one kind (a Collective, kSendKind or kRecvKind).
struct KindMeter {
  Counter submitted;
  Counter submitted_bytes;
  Counter ended;
  Counter ended_bytes;
  DurationHistogram latency;  ///< From submission to the end, of those that ended well.
  DurationHistogram lead;     ///< From submission to agreement: the wait for other ranks.
  std::array<Counter, kMeterCodes> failed;  ///< By code; the first stays 0.
};

/// An operation that has ended.
struct EndedOperation {
  int kind = 0;
  std::uint64_t bytes = 0;
  Code code = Code::kOk;
  std::int64_t submitted_ns = 0;  ///< Steady clock.
  std::int64_t agreed_ns = 0;     ///< 0: it never was.
  std::int64_t ended_ns = 0;
};

/// A bundle that has been run.
struct EndedBundle {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::int64_t duration_ns = 0;
};

/// Counts the operations and bundles of this rank. Threads: any.
class Meter {
 public:
  void submitted(int kind, std::uint64_t bytes) noexcept;
  void ended(const EndedOperation& operation) noexcept;
  void ended(const EndedBundle& bundle) noexcept;
  /// Adds what a queue's negotiation did since `before`, and sets `before` to `after`.
  void negotiated(AgreementStats& before, const AgreementStats& after) noexcept;

  /// The time by the steady clock at which the first operation since forget_first() ended well; 0:
  /// none has.
  [[nodiscard]] std::int64_t first_ended_ns() const noexcept {
    return first_ended_ns_.load(std::memory_order_relaxed);
  }
  void forget_first() noexcept { first_ended_ns_.store(0, std::memory_order_relaxed); }

  [[nodiscard]] const KindMeter& kind(int kind) const noexcept {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  /// Operations that are under way, and their bytes.
  [[nodiscard]] std::uint64_t in_flight() const noexcept;
  [[nodiscard]] std::uint64_t bytes_in_flight() const noexcept;

  // Counts so far.
  Counter bundles;
  Counter bundled_tensors;
  Counter bundled_bytes;
  DurationHistogram bundle_time;
  Counter stall_warnings;
  Counter cache_hits;
  Counter cache_misses;
  Counter cache_evictions;
  Counter payloads;
  Counter frames_sent;
  MeanErrors means;

 private:
  std::array<KindMeter, kMeterKinds> kinds_;
  std::atomic<std::int64_t> first_ended_ns_{0};
};

}  // namespace ronde
