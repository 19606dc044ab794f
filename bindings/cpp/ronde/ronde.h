// The C++ API: join a job, submit named tensors, wait for them. See examples/.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "ronde/error.h"
#include "ronde/tensor.h"

namespace ronde {

/// A call's place in the user's code. It is filled in by itself and shown when ranks disagree.
struct CallSite {
  const char* file = "";
  int line = 0;
  static CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A set of ranks with its own order of operations. The default is all ranks.
struct ProcessSet {
  std::int32_t id = 0;
};

/// Options of calls that reduce. Averages: that of equal values is that value, among up to 8 ranks
/// of one host; of 8- and 16-bit types it never overflows where it can be represented; that of
/// integers is truncated towards zero. Factors of integers are applied in double, and truncated.
/// Adasum: allreduces of float16, bfloat16, float32 and float64; within 1 ulp of its formula.
struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;
  double postscale = 1.0;
  /// Higher runs sooner, also between the pieces of a large operation that runs already. Where
  /// ranks differ, the coordinator's counts.
  int priority = 0;
  ProcessSet set = {};
  /// The codec that the values travel by, as in "int4:block=128,rounding=stochastic,ef=off";
  /// "none"; empty takes the job's setting, which is for allreduces. Of allreduces and
  /// reduce_scatters of floating types by sum or average; reduce_scatters take fp16, bf16, int8,
  /// int4 and auto.
  /// `ronde doctor --codecs` lists codecs and parameters; see docs/compression.md.
  std::string compression = {};
  /// Named allreduces of floating types by average: the weighted mean, sum(w * x) / sum(w) over the
  /// ranks. Finite, not negative, not 0 on all ranks; may change at each call, and differs between
  /// ranks. Give the number of this rank's samples where batches differ. On every rank or on none.
  std::optional<double> weight = std::nullopt;
};

/// Options of calls that only move data.
struct MoveOptions {
  int priority = 0;
  ProcessSet set = {};
  /// Of allgathers of floating types: fp16, bf16, int8, int4 or auto, as in ReduceOptions. All
  /// ranks get the same bits, also of their own rows. Empty or "none": the values as they are.
  std::string compression = {};
};

/// A tensor that ranks have alike. A repair writes it; else its `out` may be null.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A submitted operation. Copies mean the same operation. Tensors it was given must stay valid and
/// untouched until it is ready.
class RONDE_API Pending {
 public:
  class Impl;
  explicit Pending(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  /// True if it has finished, well or not. Blocks: never.
  [[nodiscard]] bool ready() const;
  /// Blocks until it has finished. Throws what it failed with.
  void wait() const;
  /// As wait, for at most `limit`; false when it has not finished by then.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) const;
  /// Waits, then gives the result of tensor `index` that the call allocated.
  [[nodiscard]] Array output(std::size_t index = 0) const;
  /// sparse_allreduce: waits, then gives the index of each row of the result.
  [[nodiscard]] std::vector<std::int64_t> indices() const { return received_splits(); }
  /// alltoall: waits, then gives the rows received from each rank.
  [[nodiscard]] std::vector<std::int64_t> received_splits() const;
  /// join: waits, then gives the rank that joined last.
  [[nodiscard]] int last_joined() const;

 private:
  std::shared_ptr<Impl> impl_;
};

/// The residual of one tensor on this rank: the rest that compression keeps for error feedback.
struct ResidualState {
  int set = 0;
  std::string name;
  std::uint64_t steps = 0;  ///< Number of times that the tensor was compressed.
  std::vector<float> values;
};

/// A message that was received.
struct Received {
  int source = -1;
  std::int64_t tag = 0;
  std::size_t bytes = 0;
};
inline constexpr int kFromAnyRank = -1;

/// Raw collectives of some ranks: no names, no negotiation, run in the calling thread. All ranks
/// of the group make the same calls in the same order. Threads: one caller at a time.
class RONDE_API Group {
 public:
  class Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  Group(Group&&) noexcept;
  ~Group();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

  void allreduce(const Tensor& tensor, const ReduceOptions& options = {});
  void reduce(const Tensor& tensor, int root, const ReduceOptions& options = {});
  void broadcast(const Tensor& tensor, int root);
  /// All ranks' rows, in the order of ranks; the first extents may differ.
  [[nodiscard]] Array allgather(const Tensor& tensor, const MoveOptions& options = {});
  /// As allgather; empty but at the root.
  [[nodiscard]] Array gather(const Tensor& tensor, int root);
  /// This rank's rows of the reduced tensor; of n ranks the first rows % n get one row more.
  [[nodiscard]] Array reduce_scatter(const Tensor& tensor, const ReduceOptions& options = {});
  /// Each rank's part, of `part`'s shape, of what the root has in `whole` (n times the shape).
  void scatter(const void* whole, const Tensor& part, int root);
  /// Sends splits[r] rows to rank r (even where empty); gives the rows received.
  [[nodiscard]] Array alltoall(const Tensor& tensor, std::span<const std::int64_t> splits = {});
  void barrier();

 private:
  std::unique_ptr<Impl> impl_;
};

/// This process's membership in a job. Leaves it when destroyed.
/// Threads: any, but for shutdown and destruction, which must not race with other calls.
/// Names say which operations of different ranks belong together; an empty name means the k-th
/// unnamed operation meets the k-th of the others.
class RONDE_API Job {
 public:
  class Impl;
  explicit Job(std::unique_ptr<Impl> impl);
  Job(Job&&) noexcept;
  ~Job();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;

  Pending allreduce_async(std::string_view name, const Tensor& tensor,
                          const ReduceOptions& options = {}, CallSite site = CallSite::here());
  void allreduce(std::string_view name, const Tensor& tensor, const ReduceOptions& options = {},
                 CallSite site = CallSite::here());
  /// All of the tensors or none: agreed as one operation.
  Pending grouped_allreduce_async(std::string_view name, std::span<const Tensor> tensors,
                                  const ReduceOptions& options = {},
                                  CallSite site = CallSite::here());
  Pending reduce_async(std::string_view name, const Tensor& tensor, int root,
                       const ReduceOptions& options = {}, CallSite site = CallSite::here());
  Pending reduce_scatter_async(std::string_view name, const Tensor& tensor,
                               const ReduceOptions& options = {}, CallSite site = CallSite::here());
  Pending broadcast_async(std::string_view name, const Tensor& tensor, int root,
                          const MoveOptions& options = {}, CallSite site = CallSite::here());
  void broadcast(std::string_view name, const Tensor& tensor, int root,
                 const MoveOptions& options = {}, CallSite site = CallSite::here());
  Pending allgather_async(std::string_view name, const Tensor& tensor,
                          const MoveOptions& options = {}, CallSite site = CallSite::here());
  Pending gather_async(std::string_view name, const Tensor& tensor, int root,
                       const MoveOptions& options = {}, CallSite site = CallSite::here());
  /// `whole` is read at the root only: n times `part`'s elements; `part` is written everywhere.
  Pending scatter_async(std::string_view name, const void* whole, const Tensor& part, int root,
                        const MoveOptions& options = {}, CallSite site = CallSite::here());
  Pending alltoall_async(std::string_view name, const Tensor& tensor,
                         std::span<const std::int64_t> splits = {}, const MoveOptions& options = {},
                         CallSite site = CallSite::here());
  /// Adds up (or averages) rows of a tensor of `table_rows` rows (-1: not known) by their indices,
  /// which may repeat and differ between ranks. The result, Pending::output() and indices(), has
  /// each index of any rank once, ascending. In host memory.
  Pending sparse_allreduce_async(std::string_view name, const Tensor& rows,
                                 std::span<const std::int64_t> indices, std::int64_t table_rows,
                                 const ReduceOptions& options = {},
                                 CallSite site = CallSite::here());
  /// Waits until all ranks of the set have come here.
  void barrier(ProcessSet set = {}, CallSite site = CallSite::here());
  /// Says that this rank has no more data: it takes part in the others' allreduces with zeros.
  Pending join_async(ProcessSet set = {});

  /// Tagged messages between two ranks.
  Pending send_async(int to, std::int64_t tag, std::span<const std::byte> data);
  /// `received` is filled in when done and must live until then; may be null.
  Pending recv_async(int from, std::int64_t tag, std::span<std::byte> data,
                     Received* received = nullptr);

  /// Makes a process set. Collective over all ranks of the job.
  ProcessSet add_process_set(const std::vector<int>& ranks);
  void remove_process_set(ProcessSet set);

  /// A tensor of zeros in memory that the ranks of this host share where they can: collectives
  /// need no copy of it. Freed with its last copy, which may outlive the job. Blocks: never.
  [[nodiscard]] Array allocate(DType dtype, const Shape& shape);

  /// Compares tensors in host memory that the ranks of the set should have alike, such as
  /// parameters and an optimizer's state. True if all have the same bits. Otherwise it does as
  /// RONDE_REPLICA_CHECK says: the log names ranks, tensor, step and values, and "repair" gives the
  /// tensors the values of most ranks. Names are of the same tensors on all ranks. Collective.
  /// Throws Mismatch on all ranks if the setting is "fail"; InvalidArgument for memory of a device,
  /// memory that a repair could not write, and tensors whose `in` and `out` differ.
  bool check_replicas(std::span<const NamedTensor> tensors, ProcessSet set = {},
                      CallSite site = CallSite::here());

  /// Opens a raw group. Collective over `ranks`; of all ranks where empty.
  [[nodiscard]] Group group(std::vector<int> ranks = {});

  /// All that error feedback keeps on this rank, and its return: so that a checkpoint resumes
  /// exactly. No operation may be under way.
  [[nodiscard]] std::vector<ResidualState> save_residuals() const;
  void load_residuals(std::vector<ResidualState> saved);
  /// Memory of all residuals, in bytes.
  [[nodiscard]] std::size_t residual_bytes() const;

  void start_timeline(const std::string& path);
  void stop_timeline();
  /// Marks for the timeline, on this rank; nothing while it is off. Spans may nest, in one thread.
  void mark(std::string_view name);
  void begin_mark(std::string_view name);
  void end_mark();
  /// Says that a training step ends here, once its operations are done: reports go by steps then.
  void mark_step();
  /// Marks the step that all ranks of an elastic job have committed: work since then is lost if a
  /// rank fails. elastic::State calls it by itself.
  void mark_commit(std::uint64_t step);
  /// Says which part of training begins here ("backward"), and that the one before ends; an empty
  /// name begins none.
  void mark_pass(std::string_view name);

  /// Makes all waits of this job throw Interrupted; where there is none, the next call that has to
  /// wait. Safe in signal handlers.
  void interrupt() noexcept;
  /// Finishes what is agreed and leaves. Idempotent.
  void shutdown() noexcept;
  /// Used by elastic::run(), which changes the ranks.
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Joins the job that the environment describes (ronde run, mpirun, srun, torchrun); a job of one
/// rank where there is none. Blocks until all ranks have come; in an elastic job, until the
/// launcher begins an epoch with this worker. If that has no place for it, the process ends with
/// status 0. Throws Timeout naming those missing, InvalidArgument naming a setting.
RONDE_API Job init();

}  // namespace ronde
