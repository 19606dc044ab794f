// One rank's part in the agreement on the operations of one process set: a pure state machine.
// Submissions, frames of other ranks and the time go in. Frames to send and agreed batches come
// out. The simulator runs thousands of instances of it.
//
// The way of a request:
//
//   submit()         OwnOperations keeps it. Subtree counts this rank as ready for it.
//   take_frames()    Once the subtree is ready, TreeSender tells the parent so by a tick.
//   on_frame(tick)   The parent's Subtree counts its child as ready. At the root all ranks
//                    are ready then: Coordinator puts the request into a batch.
//   on_frame(batch)  BatchApplier takes it out of OwnOperations, in the order of the batch.
//   take_batches()   The engine gets it with its ticket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/reduce_kernels.h"
#include "core/protocol/batch_applier.h"
#include "core/protocol/coordinator.h"
#include "core/protocol/inline_payload.h"
#include "core/protocol/operation_watch.h"
#include "core/protocol/own_operations.h"
#include "core/protocol/request.h"
#include "core/protocol/response_cache.h"
#include "core/protocol/subtree.h"
#include "core/protocol/tree.h"
#include "core/protocol/tree_sender.h"
#include "core/protocol/wire.h"

namespace ronde {

/// The members of a process set and the limits of their agreement.
struct MemberOptions {
  int rank = 0;              ///< This process, as rank of the job.
  std::vector<int> members;  ///< The job's ranks in the set, ascending; contains `rank`.
  std::vector<int> hosts;    ///< Host index of each member: shapes the tree.
  std::size_t cache_capacity = 1024;
  StallLimits stall = {.warning = std::chrono::seconds(60)};
  /// After which an operation that blocks its rank (see BlocksUntilDone) is checked for a
  /// deadlock. Zero means never.
  Duration cycle_watch = std::chrono::seconds(1);
  /// Small operations of a set on several hosts carry their data with the agreement: a few of each
  /// tick, of at most so many bytes of all ranks together. 0: never. At most kMaxPayloadBytes.
  std::size_t payload_bytes = 0;
  /// Computes their results, at the root. Outlives the member; null: none carries its data.
  const PayloadReducer* payloads = nullptr;
};

/// Takes part in the agreement for one rank.
/// Threads: one at a time. Never blocks, sleeps, reads clocks or draws random numbers.
class Member {
 public:
  explicit Member(MemberOptions options);
  ~Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Enters one operation of this rank; it will come out of take_batches() with `ticket` (not 0),
  /// agreed or failed. A valid Request only. Errors: kDuplicateName: the name is in flight on this
  /// rank. The operation in flight then fails on all ranks, unless it is agreed, with an error
  /// naming this rank and both call sites. kStalled: the others have given up this operation
  /// because this rank was late. It is reported once; the next submission is a new operation.
  /// kInvalidArgument: after join(), until all have joined.
  Status submit(const Request& request, std::uint64_t ticket, TimePoint now,
                InlinePayload payload = {});

  /// True if submit() of this request should bring this rank's data as payload. Ranks may differ:
  /// the operation carries its data if all ranks bring theirs, and the root decides that.
  [[nodiscard]] bool wants_payload(const Request& request) const noexcept;

  /// Reports that this rank has no more data. It counts as ready for every allreduce, with zeros,
  /// until all have joined. Then a kJoin item comes out with `ticket` (not 0). Any other kind that
  /// is submitted meanwhile fails on all ranks, naming a rank that has joined. Errors:
  /// kInvalidArgument where this rank has joined already.
  Status join(std::uint64_t ticket);

  /// Reports that this rank submits nothing to any set before all of these operations have ended,
  /// as long as `blocked` is true. Call it only if that is certain. Operations of ranks that block
  /// each other fail with kMismatch on all of them.
  void declare_blocked(std::span<const std::uint64_t> tickets, const BlockedFlag& blocked,
                       TimePoint now);

  /// Ends this rank's part in the set. Earlier agreements hold. Every other operation of the set,
  /// pending or submitted later on any rank, fails with kRankFailure "rank N has left the job" and
  /// the first 512 bytes of `why`. Empty: operations of this rank that are in flight are the
  /// reason. Frames must still be taken and sent afterwards.
  void leave(std::string_view why = {});
  /// True if a rank has left, and this rank knows.
  [[nodiscard]] bool closed() const noexcept { return !applier_.closed().ok(); }
  /// `; allreduce "w" waits for it`, with the likely cause and its remedies: the end of the error
  /// of an operation that a rank's leave has failed. Only once closed().
  [[nodiscard]] std::string waits_for_leaver(const Request& request) const {
    return applier_.waits_for_leaver(request);
  }

  /// True if this rank is the coordinator: the one that makes batches.
  [[nodiscard]] bool coordinates() const noexcept { return node_.is_root(); }
  /// Lets all ranks run `bundles` more paced bundles, by a batch of their own or with the next
  /// agreement. Coordinator only; does nothing once the set is closed.
  void release(std::uint32_t bundles) {
    if (coordinator_) coordinator_->release(bundles);
  }

  /// Notifies all ranks, in the agreed order, that the next device work of another set comes now;
  /// `set` is that set's name for them. Coordinator only; does nothing once the set is closed.
  void order_launch(std::uint64_t set) {
    if (coordinator_) coordinator_->order_launch(set);
  }

  /// Takes in one frame that another member of this set sent.
  /// Errors: kInvalidArgument where the frame is malformed or out of protocol; state is unchanged.
  Status on_frame(int from, std::span<const std::byte> frame, TimePoint now);

  /// Lets stall warnings and errors come due. Call at next_deadline() at the latest.
  void on_time(TimePoint now);
  /// When on_time has something to do; kForever where nothing is pending.
  [[nodiscard]] TimePoint next_deadline() const { return watch_.next_deadline(); }

  /// Appends frames to send to `out`, in order. Cheap when there are none. Submissions since the
  /// last call travel together.
  void take_frames(std::vector<OutFrame>& out);
  /// Appends batches agreed since the last call, in the agreed order.
  void take_batches(std::vector<Batch>& out);
  /// Appends warnings for people (stalled operations: name, missing ranks, seconds).
  void take_warnings(std::vector<std::string>& out);

  /// Operations of this rank that are not agreed yet, a join included.
  [[nodiscard]] std::size_t pending() const noexcept {
    return own_.size() + (own_.has_joined() ? 1 : 0);
  }
  /// Their names and the members that this rank knows to be missing: for dumps.
  [[nodiscard]] std::vector<std::string> describe_pending() const;
  /// Counts so far.
  [[nodiscard]] AgreementStats stats() const noexcept;

 private:
  Status from_child(int source, TimePoint now);
  Status from_parent(FrameKind kind, std::span<const std::byte> frame, TimePoint now);
  void agree();
  void leave(int rank, std::string_view why);
  // Questions about operations that do not end: see operation_watch.h.
  [[nodiscard]] Status check_facts(const TickFrame& tick, int source) const;
  void note(const Overdue& overdue, TimePoint now);
  void start_query(TimePoint now);
  void answer(const QueryFrame& query, TimePoint now);
  void after_answer(TimePoint now);
  void judge(std::vector<StallFact> facts, TimePoint now);

  const MemberOptions options_;
  const TreeNode node_;
  const bool spans_hosts_;
  ResponseCache cache_;
  OwnOperations own_;
  TreeSender sender_;
  Subtree subtree_;
  OperationWatch watch_;
  BatchApplier applier_;
  std::optional<Coordinator> coordinator_;  // the root's
  FrameReader reader_;
  std::vector<std::string> warnings_;
  // This rank's data since frames were taken last.
  std::size_t payload_bytes_ = 0;
  std::size_t payloads_ = 0;
};

}  // namespace ronde
