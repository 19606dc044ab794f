// Who drives: one object with a step(), whose driving right one thread of the process holds at a
// time. A caller that waits takes it and does everything itself; the background thread takes it
// when work comes and nobody waits. A thread hop costs more than a small operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/abort.h"
#include "core/base/adaptive_yield.h"
#include "core/base/mutex.h"
#include "core/engine/driving_policy.h"
#include "core/engine/driving_role.h"
#include "core/engine/flight_ring.h"
#include "core/engine/frame.h"
#include "core/engine/intake.h"
#include "core/engine/key_value_exchange.h"
#include "core/engine/operation.h"
#include "core/engine/point_to_point.h"
#include "core/engine/set_queue.h"
#include "core/ports/control_channel.h"
#include "core/ports/event_sink.h"

namespace ronde {

/// Asked now and then while a caller waits; an error ends the wait with it (the operation goes on).
/// Called in the waiting thread at least every 50 ms.
using InterruptCheck = std::function<Status()>;

/// Takes a message that compares clocks; gives the answer, where it has one.
using ClockHandler =
    std::function<std::optional<std::vector<std::byte>>(std::span<const std::byte>)>;

/// How long to wait, and what may end the wait early.
struct WaitOptions {
  TimePoint deadline = kForever;  ///< Passing it gives kTimeout; the operation goes on.
  InterruptCheck interrupt;
  /// Whether an interrupt() that came before the wait, when nobody waited, ends it too.
  bool heeds_earlier_interrupts = true;
};

struct EngineOptions {
  ControlChannel* channel = nullptr;  ///< Outlives the engine.
  std::shared_ptr<AbortToken> abort;  ///< Aborted when the job breaks.
  std::size_t fusion_threshold_bytes = 0;
  std::size_t partition_bytes = 0;  ///< As SetQueueOptions has it.
  std::size_t inline_bytes = 0;
  std::size_t cache_capacity = 0;
  /// How long a waiting caller spins before it sleeps; 0 (ranks outnumber cores): it yields.
  std::chrono::microseconds spin{0};
  /// A caller whose deadline is nearer leaves data to the queue's thread; others move it
  /// themselves.
  Duration far_deadline = std::chrono::seconds(10);
  Duration stall_warning{0};
  Duration stall_error{0};
  const EventGate* events = nullptr;  ///< Outlives it; may be null.
  /// Called after warnings of stalled operations were logged, in the driving thread; quick.
  std::function<void()> on_stall;
  /// Called when an operation has ended because of a rank that died or left, once for each such
  /// rank in turn; quick. Threads: any.
  std::function<void()> on_left_behind;
  /// Takes what send_clock() of another rank sent, and may give an answer. Called while driving.
  ClockHandler on_clock;
};

/// Threads: any, but for construction and destruction.
class Engine final : private ChannelSink {
 public:
  /// Starts the background thread.
  explicit Engine(EngineOptions options);
  /// Fails what is left and ends all threads. Blocks.
  ~Engine() override;
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

  /// Says that this rank submits nothing before all of these have ended, as long as `blocked` is
  /// true: see Negotiator::declare_blocked. Blocks: never.
  void declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked);

  /// Starts a send or receive; memory must stay until done. Blocks: never.
  Result<OperationPtr> send(int to, std::int64_t tag, std::span<const std::byte> data);
  Result<OperationPtr> recv(int from, std::int64_t tag, std::span<std::byte> data,
                            Message* message);

  /// Sends `to` what `make` gives when it is sent. Nothing where that rank is gone. Blocks: never.
  void send_clock(int to, std::function<std::vector<std::byte>()> make);

  /// Gives every rank of `ranks` (this one included) the values of all. Blocks. Calls with one key
  /// match by round. Errors: kTimeout naming the missing ranks, kRankFailure.
  Result<std::vector<std::string>> exchange(std::uint64_t key, std::uint32_t round,
                                            std::span<const int> ranks, std::string_view mine,
                                            const WaitOptions& options);

  /// Leaves one set as leave() does all, and then forgets it. Errors: kTimeout where something is
  /// still in flight at the deadline; the set has been left all the same.
  Status leave_set(SetId id, TimePoint deadline);
  /// Leaves all sets: what this rank has agreed to is finished, what is not agreed fails on all
  /// ranks naming this one, and saying `why` where it is not empty. Blocks until then, at most
  /// until `deadline`.
  void leave(TimePoint deadline, std::string why = {});
  /// Declares the job broken.
  void fail(const Status& reason);
  /// Makes all current waits return kInterrupted; where there is none, the next that has to wait: a
  /// signal may land just before. Safe in signal handlers.
  void interrupt() noexcept;

  /// Ok, or why the job is broken.
  [[nodiscard]] Status job_status() const { return options_.abort->status(); }
  /// Of the last operation that has ended because of a rank that died or left; Ok where none has.
  /// Threads: any.
  [[nodiscard]] Status left_behind() const RONDE_EXCLUDES(left_mutex_);
  /// What became of this rank's last operations. Threads: any.
  [[nodiscard]] const std::shared_ptr<FlightRing>& flights() const noexcept { return flights_; }
  /// Totals of this rank. Threads: any.
  [[nodiscard]] const Meter& meter() const noexcept { return meter_; }
  /// Pending operations of all sets, for dumps.
  std::vector<std::string> describe_pending();

 private:
  using Predicate = DrivingRole::Predicate;
  using QueuePtr = SetQueuePtr;
  /// What a driving caller does once it has spun for long enough.
  enum class WhenIdle { kSleep, kLeave };

  // Driving: engine_driving.cc.
  Status wait_until(const Predicate& done, const WaitOptions& options);
  void drive_for(const Predicate& done, const WaitOptions& options, std::uint64_t interrupts,
                 TimePoint until);
  [[nodiscard]] std::uint64_t interrupts_before(const WaitOptions& options) const;
  Status interruption(const WaitOptions& options, std::uint64_t interrupts);
  /// Drives for a moment, without sleeping, until the operation is done.
  void help(const Operation& operation, TimePoint until);
  [[nodiscard]] bool nothing_outstanding() const RONDE_EXCLUDES(queues_mutex_);
  void release_role();
  void drive(const Predicate& done, TimePoint until, WhenIdle when_idle);
  /// Spins for a moment or lets others run; false where a caller idle for so long should sleep.
  bool rests(Duration idle);
  /// Whether a queue's thread is at work: it needs the core more than a spinning caller does.
  [[nodiscard]] bool executing() const;
  void sleep_as_caller(const Predicate& done, TimePoint until);
  void background_main();
  void background_turn();
  void gather();

  // One turn of the driving thread.
  bool step();
  void come_due(TimePoint time);
  void flush();
  void look_for_deadlines();
  void send_negotiations();
  void send_frames(EnginePart kind, std::uint64_t id);
  void run_agreed();
  [[nodiscard]] bool collect_agreed();
  void finish_messages();
  bool alone(const SetQueue& queue) const;
  void fail_in_driver(const Status& reason);
  void tell_failure(const Status& reason);

  // The order of launches: engine_launches.cc.
  void ask_for_launch(SetId id);
  void order_launch(int coordinator, SetId id);
  void order_early_launches();
  void place_launch(std::uint64_t set);
  void end_launches();
  [[nodiscard]] SetQueue* global_queue() const;

  // ChannelSink.
  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;
  Status route(int from, std::span<const std::byte> frame);
  Status route_negotiation(int from, SetId id, std::span<const std::byte> payload);

  Status leave_queues(std::vector<QueuePtr> queues, TimePoint deadline, std::string why);
  QueuePtr find_queue(SetId id) const RONDE_EXCLUDES(queues_mutex_);
  void leave_behind(const Status& why) RONDE_EXCLUDES(left_mutex_);
  Status failure_of(std::span<const int> ranks) RONDE_EXCLUDES(left_mutex_);

  // Const after construction, or safe by itself.
  const EngineOptions options_;
  ControlChannel& channel_;
  KeyValueExchange exchange_;
  const std::shared_ptr<FlightRing> flights_ = std::make_shared<FlightRing>();
  Meter meter_;
  LaunchOrder launches_;
  DrivingRole role_;
  Intake intake_;
  std::atomic<std::uint64_t> interrupts_{0};
  std::atomic<std::uint64_t> interrupts_told_{0};  ///< So many have ended a wait.
  std::atomic<int> callers_inside_{0};  ///< Threads that the destructor must let go first.
  InlineDrivePolicy inline_driving_;

  // Driving thread only.
  std::vector<QueuePtr> driven_queues_;
  std::map<SetId, std::vector<std::pair<int, std::vector<std::byte>>>> early_frames_;
  std::set<SetId> removed_;
  PointToPoint messages_;
  bool failure_told_ = false;
  std::vector<std::uint64_t> early_launches_;  // rank 0: asked for before it has the global set
  bool launch_ordered_ = false;  // rank 0: since the global set was last collected from
  bool launches_ended_ = false;  // a rank has left: no more places in the order of launches
  bool may_run_here_ = false;    // agreed work, in the driving thread
  TimePoint next_deadline_ = kForever;
  TimePoint background_deadline_ = kForever;  ///< Until when the background thread sleeps.
  AdaptiveYield yields_;
  BatchingPolicy batching_;             // background thread only
  std::vector<OutFrame> out_;           // reused
  std::vector<FinishedMessage> ended_;  // reused
  std::vector<std::byte> frame_;        // reused

  // Guarded.
  mutable Mutex queues_mutex_;
  std::unordered_map<SetId, QueuePtr> queues_ RONDE_GUARDED_BY(queues_mutex_);
  mutable Mutex left_mutex_;  // waiters' predicates take it
  std::map<int, Status> left_ RONDE_GUARDED_BY(left_mutex_);
  Status left_behind_ RONDE_GUARDED_BY(left_mutex_);

  std::thread background_;  // last
};

}  // namespace ronde
