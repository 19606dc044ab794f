// The engine of one rank: it takes operations, executes agreed work and wakes callers that wait.
//
// It has the public calls and wires the parts that do the work. One thread at a time drives it: see
// driver.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/engine/driving/driver.h"
#include "core/engine/driving/interrupts.h"
#include "core/engine/driving/progress.h"
#include "core/engine/frames/frame.h"
#include "core/engine/peers/key_value_exchange.h"
#include "core/engine/peers/membership.h"
#include "core/engine/peers/messages.h"
#include "core/engine/peers/router.h"
#include "core/engine/queues/driving_role.h"
#include "core/engine/queues/launch_order.h"
#include "core/engine/queues/operation.h"
#include "core/engine/queues/queues.h"
#include "core/engine/queues/task_queue.h"
#include "core/engine/records/left_behind.h"
#include "core/engine/records/meter.h"
#include "core/engine/records/operation_ring.h"
#include "core/ports/control_channel.h"
#include "core/ports/event_sink.h"

namespace ronde {

struct EngineOptions {
  ControlChannel* channel = nullptr;  ///< Outlives the engine.
  std::shared_ptr<AbortToken> abort;  ///< Aborted when the job breaks.
  std::size_t fusion_threshold_bytes = 0;
  std::size_t partition_bytes = 0;  ///< As SetQueueOptions has it.
  std::size_t inline_bytes = 0;
  std::size_t cache_capacity = 0;
  /// Small operations between hosts carry up to so many bytes with the agreement; 0: none.
  /// `payloads` computes their results.
  std::size_t payload_bytes = 0;
  const PayloadReducer* payloads = nullptr;
  /// How long a waiting caller spins before it sleeps. 0, if ranks outnumber cores: it yields.
  std::chrono::microseconds spin{0};
  /// A waiting caller whose deadline is nearer leaves bundles to the queue's thread. Others run
  /// small ones themselves.
  Duration far_deadline = std::chrono::seconds(10);
  StallLimits stall;
  const EventSwitch* events = nullptr;  ///< Outlives it; may be null.
  Meter* meter = nullptr;               ///< Counts operations; outlives it. Null: the engine's own.
  std::string check_mean;  ///< A part of the names of sums that are compared; empty: none are.
  const NonfinitePolicy* nonfinite = nullptr;  ///< Outlives it; null: values are not looked at.
  /// Called after a warning of stalled operations has come, in the driving thread; quick.
  std::function<void()> on_stall;
  /// Called when an operation has ended because of a rank that died or left, once for each such
  /// rank in turn; quick. Threads: any.
  std::function<void()> on_left_behind;
  /// Receives the bytes that another rank sent by send_clock(). Called while driving.
  ClockHandler on_clock;
};

/// Runs the submitted operations of one rank. Threads: any, but for construction and destruction.
class Engine {
 public:
  /// Starts the background thread.
  explicit Engine(EngineOptions options);
  /// Fails the operations that have not ended, and ends all threads. Blocks.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Adds a process set of which this rank is a member. Ranks may do so at different times.
  /// `stall_error`: this set's own limit, in place of the options'.
  void add_set(SetId id, std::vector<int> members, std::unique_ptr<Executor> executor,
               std::optional<Duration> stall_error = std::nullopt);
  /// Removes a set once nothing of it is outstanding anywhere (the caller has agreed on that).
  void remove_set(SetId id);

  /// Submits one operation. Blocks: never, but for Submission::help.
  /// Errors: kInvalidArgument where there is no such set here, kDuplicateName, the job's failure.
  Result<OperationPtr> submit(SetId set, Submission submission);
  /// Blocks until the operation is done and returns its status; drives meanwhile.
  Status wait(const OperationPtr& operation, const WaitOptions& options);

  /// This rank submits nothing before all of these have ended, as long as `blocked` is true: see
  /// Member::declare_blocked. Blocks: never.
  void declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked);

  /// Starts a send or receive; memory must stay until done. `type`: of the elements; a receive of
  /// another type fails. Empty: any. Blocks: never.
  Result<OperationPtr> send(int to, std::int64_t tag, std::span<const std::byte> data,
                            const std::string& type = {});
  Result<OperationPtr> recv(int from, std::int64_t tag, std::span<std::byte> data, Message* message,
                            const std::string& type = {});

  /// Sends to rank `to` the bytes of `make`, which is called at the moment of sending. Blocks:
  /// never.
  void send_clock(int to, std::function<std::vector<std::byte>()> make);

  /// Gives every rank of `ranks` (ascending, this one included) the values of all. Blocks. Calls
  /// with one key match by round. Errors: kTimeout naming the missing ranks, kRankFailure.
  Result<std::vector<std::string>> exchange(std::uint64_t key, std::uint32_t round,
                                            std::span<const int> ranks, std::string_view mine,
                                            const WaitOptions& options);

  /// Leaves one set as leave() does all, and then forgets it. Errors: kTimeout or kInterrupted
  /// where the wait ends before all that is in flight; the set has been left all the same.
  Status leave_set(SetId id, const WaitOptions& options);
  /// Declares that all ranks are about to remove the set, or not after all. Does nothing for
  /// unknown sets.
  void announce_removal(SetId id, bool removed);
  /// Leaves all sets. Agreed operations are finished. All others fail on all ranks with an error
  /// that names this rank, and `why` if it is not empty. Blocks until then, at most until
  /// `deadline`.
  void leave(TimePoint deadline, std::string why = {});
  /// Declares the job broken: waits end, and all operations with the next step.
  void fail(const Status& reason);
  /// Makes all current waits return kInterrupted, or if there is none, the next wait: a signal may
  /// come just before it. Safe in signal handlers.
  void interrupt() noexcept { driver_.interrupt(); }

  /// The ranks of the job. Threads: any.
  [[nodiscard]] const Topology& topology() const noexcept { return channel_.topology(); }
  /// Ok, or why the job is broken.
  [[nodiscard]] Status job_status() const { return options_.abort->status(); }
  /// The error of the last operation that ended as a rank died or left; ok if none has.
  /// Threads: any.
  [[nodiscard]] Status left_behind() const { return left_behind_.status(); }
  /// The flight recorder. Threads: any.
  [[nodiscard]] const std::shared_ptr<OperationRing>& records() const noexcept { return records_; }
  /// Totals of this rank. Threads: any.
  [[nodiscard]] const Meter& meter() const noexcept { return meter_; }
  /// Pending operations of all sets, for dumps.
  std::vector<std::string> describe_pending();

 private:
  [[nodiscard]] std::string name_missing(const ExchangeId& id);
  Status leave_queues(std::vector<SetQueuePtr> queues, WaitOptions options, std::string why);

  const EngineOptions options_;
  ControlChannel& channel_;
  const std::shared_ptr<OperationRing> records_ = std::make_shared<OperationRing>();
  Meter own_meter_;
  Meter& meter_;
  LaunchOrder launch_order_;
  LeftBehind left_behind_;

  // Each uses only those before it.
  DrivingRole role_;
  TaskQueue tasks_;
  FrameSender sender_;
  Queues queues_;
  KeyValueExchange exchange_;
  Messages messages_;
  Membership membership_;
  Router router_;
  Progress progress_;
  Driver driver_;
};

}  // namespace ronde
