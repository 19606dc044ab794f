// One submitted operation: its request, its memory and its state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/engine/records/meter.h"
#include "core/engine/records/operation_ring.h"
#include "core/ports/executor.h"
#include "core/protocol/request.h"

namespace ronde {

class Operation;

/// The arguments of Engine::submit: a request with this rank's memory, which must stay valid and
/// untouched until the operation is done. An Operation adds the state that the engine changes.
struct Submission {
  Request request;
  std::vector<const void*> inputs;  ///< One per tensor; null for no elements, or where not root.
  std::vector<void*> outputs;       ///< One per tensor, may equal the input; null: use `allocate`.
  /// Gives memory for null outputs. Empty: the operation allocates, see Operation::owned_outputs.
  OutputAllocator allocate;
  /// alltoall: rows for each member; empty means even. sparse_allreduce: the index of each row, and
  /// last the number of rows that indices are below (-1: not known).
  std::vector<std::int64_t> splits;
  /// Called once when done, before waiters see it, in the thread that finishes the operation. It
  /// may call members that are "only once done()". Must not block. May be empty.
  std::function<void(Operation&)> on_done;
  /// Tensors in device memory. `stream`: its earlier work comes first. `ready`: the runtime records
  /// it on that stream; the tensors may be used after it (null: now). `device_memory` allocates
  /// outputs.
  void* stream = nullptr;
  std::shared_ptr<DeviceEvent> ready;
  std::function<Result<std::shared_ptr<std::byte>>(std::size_t bytes)> device_memory;
  /// The caller will wait at once: the background coordinator need not be woken.
  bool caller_waits = false;
  /// The caller itself follows what is not finite: see Operation::finding().
  bool holds_finding = false;
  /// How long submit() may drive the engine, so that a small operation ends without waking a
  /// thread. For callers that cannot wait. submit() drives only if nothing else of this rank is
  /// outstanding. It finishes work that all ranks agreed on meanwhile, even if that takes longer.
  Duration help{0};
};

/// An output that the operation allocated itself.
struct OwnedOutput {
  std::shared_ptr<std::byte> data;  ///< Null for no elements. On the device of the request.
  Shape shape;
};

/// One submitted operation with its state, shared between its caller and the engine.
class Operation {
 public:
  Operation(Submission&& submission, std::uint64_t ticket);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// True if it has finished, well or not. Threads: any.
  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// How it finished. Only once done().
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  /// Outputs that the caller gave no memory for, by tensor. Only once done() without error.
  [[nodiscard]] std::vector<OwnedOutput>& owned_outputs() noexcept { return owned_; }
  /// Tensors in device memory: the event after which the results are there; null if they are there
  /// already. Only once done() without error.
  [[nodiscard]] const std::shared_ptr<DeviceEvent>& completion() const noexcept {
    return completion_;
  }
  /// alltoall: rows received from each member. sparse_allreduce: the index of each row of the
  /// result. Only once done() without error.
  [[nodiscard]] const std::vector<std::int64_t>& recv_splits() const noexcept {
    return recv_splits_;
  }
  /// The first value that it reduced and that is not finite; ranks are those of the job. Only once
  /// done() without error.
  [[nodiscard]] const NonfiniteFinding& finding() const noexcept { return finding_; }
  /// Training steps before it, if it has a finding.
  [[nodiscard]] std::uint64_t steps_before() const noexcept { return steps_before_; }
  /// join: the rank that joined last. Only once done().
  [[nodiscard]] int last_joined() const noexcept { return last_joined_; }
  [[nodiscard]] const Submission& submission() const noexcept { return submission_; }
  [[nodiscard]] std::uint64_t ticket() const noexcept { return ticket_; }

  // The engine alone calls these.

  /// Its record; set before the operation is queued.
  [[nodiscard]] RecordTicket record() const noexcept { return record_; }
  void set_record(RecordTicket record) noexcept { record_ = record; }
  /// When all ranks had submitted it, on the steady clock; 0: they have not. Set before the
  /// operation is executed.
  [[nodiscard]] std::int64_t agreed_ns() const noexcept { return agreed_ns_; }
  void set_agreed(TimePoint when) noexcept { agreed_ns_ = to_ns(when); }

  /// One of its tensors as the executor wants it. Valid while the operation lives.
  [[nodiscard]] BundleTensor bundle_tensor(std::size_t index);
  /// Adds so many pieces to the one piece of each tensor. Call it before any piece has run.
  void add_pieces(std::size_t more) noexcept { unfinished_tensors_ += more; }
  /// An allocator for a piece that begins `offset` bytes into a tensor. The whole output is
  /// allocated with the first piece. Threads: the executing one. Valid while the operation lives.
  [[nodiscard]] OutputAllocator piece_allocator(std::size_t offset);
  /// Notes the end of one tensor or piece; true when it was the last. Threads: the executing one.
  bool tensor_finished(const Status& status);
  /// The first error of its tensors, or ok.
  [[nodiscard]] const Status& tensors_status() const noexcept { return tensors_status_; }
  /// Names the finding's rank by the set's `members`, and its time; once, before finish().
  void settle_finding(const std::vector<int>& members, std::uint64_t steps) noexcept;
  /// Notes the rank that joined last; before finish().
  void set_last_joined(int rank) noexcept { last_joined_ = rank; }
  /// Publishes the end, at most once.
  void finish(const Status& status);
  /// Its track in the timeline: "allreduce.layer1/weight".
  [[nodiscard]] const std::string& label() const noexcept { return label_; }
  void make_label();
  /// Bytes this rank puts in.
  [[nodiscard]] std::size_t input_bytes() const noexcept;
  /// "NEGOTIATE_ALLREDUCE", as Horovod's timeline calls it.
  [[nodiscard]] std::string_view negotiation_event() const noexcept;

 private:
  Result<void*> allocate_output(std::size_t index, const Shape& shape);
  Result<void*> whole_output(std::size_t index);
  Result<std::shared_ptr<std::byte>> allocate_memory(std::size_t bytes);

  Submission submission_;
  const std::uint64_t ticket_;
  RecordTicket record_;
  std::int64_t agreed_ns_ = 0;
  OutputAllocator allocator_;
  std::vector<OwnedOutput> owned_;
  std::map<std::size_t, Result<void*>> whole_outputs_;  // of tensors that run in pieces
  std::vector<std::int64_t> recv_splits_;
  std::shared_ptr<DeviceEvent> completion_;
  NonfiniteFinding finding_;
  std::uint64_t steps_before_ = 0;
  int last_joined_ = -1;
  std::size_t unfinished_tensors_;
  Status tensors_status_;
  std::string label_;
  Status status_;
  std::atomic<bool> done_{false};
};

/// An operation that ends, as the meter counts it.
EndedOperation ended_operation(const Operation& operation, Code code, TimePoint when) noexcept;

using OperationPtr = std::shared_ptr<Operation>;

}  // namespace ronde
