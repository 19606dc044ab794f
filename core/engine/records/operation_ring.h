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
enum class OperationStage : std::uint8_t { kSubmitted, kAgreed, kStarted, kDone };
inline constexpr std::size_t kOperationStages = 4;

/// Kinds of operations that are not negotiated, after the last Collective.
inline constexpr int kSendKind = kCollectiveCount;
inline constexpr int kRecvKind = kCollectiveCount + 1;

/// An operation as it is submitted.
struct OperationFacts {
  std::string_view name = {};  ///< Its first 56 bytes are kept.
  int kind = 0;                ///< A Collective, kSendKind or kRecvKind.
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< Counts a reserved record's operations from 1; 0: it has a name.
};

/// One operation as it was recorded.
struct OperationRecord {
  std::uint64_t number = 0;  ///< Counts this rank's operations from 1.
  std::string name;
  std::string_view kind;
  std::int32_t set = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< As OperationFacts has it.
  Code code = Code::kOk;   ///< Once done.
  /// When each stage was reached, on the steady clock; 0: not reached, or skipped.
  std::array<std::int64_t, kOperationStages> at_ns{};

  [[nodiscard]] std::int64_t at(OperationStage stage) const {
    return at_ns[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool done() const { return at(OperationStage::kDone) != 0; }
};

/// The place of an operation's record, and the values that its end needs.
struct RecordTicket {
  std::uint64_t number = 0;  ///< 0: it has none.
  std::uint32_t slot = 0;
  int kind = 0;
  std::uint64_t bytes = 0;
  std::int64_t submitted_ns = 0;  ///< Steady clock.
};

/// Records the last operations of this rank: many writers, any readers, no locks. A new operation
/// overwrites one that is done rather than one that is under way.
class OperationRing {
 public:
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kReserved = 256;

  OperationRing();
  ~OperationRing();
  OperationRing(const OperationRing&) = delete;
  OperationRing& operator=(const OperationRing&) = delete;

  /// Records a submission, now. Threads: any. Blocks: never.
  RecordTicket begin(const OperationFacts& facts) noexcept;
  /// Reserves a record that one caller's operations share in turn: they come too fast for a record
  /// each. Number 0: none is free, and nothing is recorded. Threads: any.
  RecordTicket reserve(std::string_view name, std::int32_t set) noexcept;
  /// As begin(), in a reserved record, which has name and set. Threads: its owner.
  RecordTicket begin_in(const RecordTicket& reserved, const OperationFacts& facts,
                        TimePoint when) noexcept;
  /// Frees a reserved record, which stays until another caller reserves it. Threads: its owner.
  void release(const RecordTicket& reserved) noexcept;
  /// Records that a stage was reached for the first time (an operation may run in pieces); nothing
  /// where the record has been overwritten. Threads: any.
  void reach(RecordTicket ticket, OperationStage stage, TimePoint when) noexcept;
  /// Records the end. Threads: any.
  void end(RecordTicket ticket, Code code, TimePoint when) noexcept;

  /// All records, by number. One that is being written meanwhile is left out. Threads: any.
  [[nodiscard]] std::vector<OperationRecord> all() const;
  /// Records of operations that are not done. Threads: any.
  [[nodiscard]] std::vector<OperationRecord> pending() const;
  /// Records that ended with an error since a time on the steady clock. Threads: any.
  [[nodiscard]] std::vector<OperationRecord> failed(std::int64_t since_ns) const;
  /// The record that ended well last, or number 0. Threads: any.
  [[nodiscard]] OperationRecord last_finished() const;

 private:
  struct Slot;
  Slot* current(RecordTicket ticket) noexcept;
  Slot& claim(std::uint64_t number, std::uint32_t& index) noexcept;
  template <typename Wanted>
  [[nodiscard]] std::vector<OperationRecord> collect(const Wanted& wanted) const;

  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> last_{0};
  std::array<std::atomic<bool>, kReserved> taken_{};
};

/// "allreduce", "send", ...
std::string_view operation_kind_name(int kind) noexcept;

}  // namespace ronde
