// The flight recorder: the stages that the last few thousand operations of this rank have reached.
// Always on: an operation costs four clock readings and a few stores. The memory is fixed. Readers
// see it while the job runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/protocol/request.h"

namespace ronde {

/// The stages of an operation.
enum class FlightStage : std::uint8_t { kSubmitted, kAgreed, kStarted, kDone };
inline constexpr std::size_t kFlightStages = 4;

/// Kinds of flights that are not negotiated, after the last Collective.
inline constexpr int kSendFlight = kCollectiveCount;
inline constexpr int kRecvFlight = kCollectiveCount + 1;

/// An operation as it is submitted.
struct FlightPlan {
  std::string_view name = {};  ///< Its first 56 bytes are kept.
  int kind = 0;                ///< A Collective, kSendFlight or kRecvFlight.
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< Counts the operations of one seat from 1; 0: it has a name instead.
};

/// One operation as it was recorded.
struct Flight {
  std::uint64_t number = 0;  ///< Counts this rank's operations from 1.
  std::string name;
  std::string_view kind;
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< As FlightPlan's.
  Code code = Code::kOk;   ///< Once done.
  /// When each stage was reached, on the steady clock; 0: not reached, or skipped.
  std::array<std::int64_t, kFlightStages> at_ns{};

  [[nodiscard]] std::int64_t at(FlightStage stage) const {
    return at_ns[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool done() const { return at(FlightStage::kDone) != 0; }
};

/// The place of an operation's record, and the values that its end needs.
struct FlightTicket {
  std::uint64_t number = 0;  ///< 0: it has none.
  std::uint32_t slot = 0;
  int kind = 0;
  std::uint64_t bytes = 0;
  std::int64_t submitted_ns = 0;  ///< Steady clock.
};

/// Records the last operations of this rank: many writers, any readers, no locks. A new operation
/// overwrites one that is done rather than one that is under way.
class FlightRing {
 public:
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kSeats = 256;

  FlightRing();
  ~FlightRing();
  FlightRing(const FlightRing&) = delete;
  FlightRing& operator=(const FlightRing&) = delete;

  /// Records a submission, now. Threads: any. Blocks: never.
  FlightTicket begin(const FlightPlan& plan) noexcept;
  /// A record that one caller's operations share in turn, as they come too fast for a record each.
  /// Its number is 0 if all seats are taken; then nothing is recorded. Threads: any.
  FlightTicket take_seat(std::string_view name, std::int32_t set) noexcept;
  /// As begin(), in a seat, which has name and set. Threads: its owner.
  FlightTicket begin_in(const FlightTicket& seat, const FlightPlan& plan, TimePoint when) noexcept;
  /// Gives a seat back; its record stays until another caller takes the seat. Threads: its owner.
  void leave_seat(const FlightTicket& seat) noexcept;
  /// Records that a stage was reached for the first time (an operation may run in pieces); nothing
  /// where the record has been overwritten. Threads: any.
  void reach(FlightTicket ticket, FlightStage stage, TimePoint when) noexcept;
  /// Records the end. Threads: any.
  void end(FlightTicket ticket, Code code, TimePoint when) noexcept;

  /// All records, by number. One that is being written meanwhile is left out. Threads: any.
  [[nodiscard]] std::vector<Flight> all() const;
  /// Those that are not done. Threads: any.
  [[nodiscard]] std::vector<Flight> pending() const;
  /// Those that ended with an error since a time on the steady clock. Threads: any.
  [[nodiscard]] std::vector<Flight> failed(std::int64_t since_ns) const;
  /// The one that ended well last, or number 0. Threads: any.
  [[nodiscard]] Flight last_finished() const;

 private:
  struct Slot;
  Slot* current(FlightTicket ticket) noexcept;
  Slot& claim(std::uint64_t number, std::uint32_t& index) noexcept;
  template <typename Wanted>
  [[nodiscard]] std::vector<Flight> collect(const Wanted& wanted) const;

  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> last_{0};
  std::array<std::atomic<bool>, kSeats> taken_{};
};

/// "allreduce", "send", ...
std::string_view flight_kind_name(int kind) noexcept;

}  // namespace ronde
