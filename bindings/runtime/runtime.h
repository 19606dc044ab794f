// The composition root: builds channel, backends, executors, engine and timeline from a Config, and
// owns the order in which they end. All doors (C++, Python, command line) stand on this class.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/status.h"
#include "core/engine/engine.h"
#include "core/ports/backend.h"
#include "core/ports/device_ops.h"
#include "core/ports/topology.h"
#include "ops/compression/residuals.h"

namespace ronde {

struct DeviceLibraries;  // bindings/runtime/devices.h

/// Raw collectives of a group: no names, no negotiation, run in the calling thread.
/// Threads: one caller at a time.
class RawGroup {
 public:
  virtual ~RawGroup() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// Runs one bundle, as Executor::execute. Blocks.
  virtual Status run(const Bundle& bundle) = 0;
  /// What ran last: "shm", "ring over tcp", ... for bench and doctor.
  [[nodiscard]] virtual std::string last_path() const = 0;
  /// As CollectiveExecutor::last_compression().
  [[nodiscard]] virtual CompressionFacts last_compression() const = 0;
  /// As CollectiveExecutor::explain_compression().
  [[nodiscard]] virtual std::vector<std::string> explain_compression() const = 0;
};

/// How a set of open_set() behaves.
struct SetOptions {
  std::string name;         ///< Compared among the members.
  Duration stall_error{0};  ///< When an operation that some have not submitted fails; zero: never.
};

/// One membership of this process in one job. Two may live in one process.
/// Threads: any, but for shutdown, which must not race with other calls.
class Runtime {
 public:
  /// Joins the job that `config` describes. Collective over its ranks. Blocks up to
  /// config.start_timeout. Errors: kTimeout naming the ranks that did not come, kVersionMismatch,
  /// kInvalidArgument naming a setting, kUnavailable.
  static Result<std::unique_ptr<Runtime>> create(const Config& config);
  /// The same with other libraries for devices than this build's.
  static Result<std::unique_ptr<Runtime>> create(const Config& config, DeviceLibraries libraries);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Config& config() const noexcept;
  [[nodiscard]] const Topology& topology() const noexcept;
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] int local_rank() const noexcept;  ///< Position among the ranks of this host.
  [[nodiscard]] int local_size() const noexcept;
  [[nodiscard]] int cross_rank() const noexcept;  ///< This host's position among those that have
                                                  ///< a rank with this local rank.
  [[nodiscard]] int cross_size() const noexcept;

  /// Submits one operation to a set. Blocks: never. Tensors in device memory may still be written
  /// by work of Submission::stream; they are done when their work is queued, see order_after().
  /// Errors: kInvalidArgument, kDuplicateName, kNotInitialized, and the job's failure once broken.
  Result<OperationPtr> submit(SetId set, Submission submission);

  /// Blocks until `operation` is done and returns its status; drives the engine meanwhile.
  Status wait(const OperationPtr& operation, const WaitOptions& options = {});

  /// Says that this process submits nothing before all of these have ended, as long as `blocked`
  /// is true; only where that is certain. Ranks that wait for each other by it get kMismatch at
  /// once, rather than when they have stalled. Blocks: never.
  void declare_blocked(std::span<const OperationPtr> operations, BlockedFlag blocked);

  /// Tensors in device memory: what `stream` is given from now on comes after the results of
  /// `operation`, which is done without error. Nothing for others. Blocks: never.
  Status order_after(const OperationPtr& operation, DeviceStream stream);

  /// submit and wait in one, without waking any other thread.
  Result<OperationPtr> run(SetId set, Submission submission, const WaitOptions& options = {});

  /// Says that this rank has no more data in this set; done when all have joined.
  /// `on_done`: as Submission::on_done.
  Result<OperationPtr> join(SetId set, std::function<void(Operation&)> on_done = {});

  /// Makes a process set of the job's `ranks`. Collective over all ranks of the job. Blocks.
  /// Errors: kMismatch where ranks disagree; kInvalidArgument: empty, unknown or double ranks, or
  /// equal to an existing set (the message names its id).
  Result<SetId> add_process_set(std::vector<int> ranks, const WaitOptions& options = {});
  /// Removes a set; collective over all ranks of the job. Not the global set.
  Status remove_process_set(SetId set, const WaitOptions& options = {});
  /// Makes a process set that its `ranks` alone know of. Collective over them; calls with the same
  /// ranks match in order, and any number of such sets may have the same ranks. Blocks.
  /// Errors: kInvalidArgument: as add_process_set, or without this rank; kMismatch where the names
  /// differ; kTimeout naming the ranks that did not come.
  Result<SetId> open_set(std::vector<int> ranks, const SetOptions& set,
                         const WaitOptions& options = {});
  /// Leaves such a set: agreed operations end, all others fail on all members, naming this rank.
  /// Blocks until nothing of this rank is in flight. Errors: kTimeout; it has left all the same.
  Status close_set(SetId set, const WaitOptions& options = {});
  /// Ranks of a set, ascending. Errors: kInvalidArgument where there is none.
  [[nodiscard]] Result<std::vector<int>> process_set_ranks(SetId set) const;
  [[nodiscard]] std::vector<SetId> process_sets() const;

  /// Starts sending to a rank of the job. `data` must stay untouched until done. Blocks: never.
  Result<std::shared_ptr<Operation>> send(int to, std::int64_t tag,
                                          std::span<const std::byte> data);
  /// Starts receiving from `from` (or kAnySource) the next message with `tag`, at most
  /// `data.size()` bytes. `message` is filled in when done and must live until then; may be null.
  Result<std::shared_ptr<Operation>> recv(int from, std::int64_t tag, std::span<std::byte> data,
                                          Message* message);

  /// Opens a raw group of the job's `ranks` (ascending). Collective over those ranks. Blocks.
  /// `algorithm`: in place of the setting, where given.
  Result<std::unique_ptr<RawGroup>> open_group(std::vector<int> ranks, std::string algorithm = {});

  /// Memory for a tensor, all zeros: where the data plane has some that the ranks of this host
  /// share, collectives need no copy of it. It may outlive the runtime.
  /// Errors: kResourceExhausted, kNotInitialized.
  Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes);

  /// What error feedback keeps on this rank, so that a checkpoint resumes exactly. No operation may
  /// be under way. Errors: see ResidualStore.
  [[nodiscard]] Result<std::vector<SavedResidual>> save_residuals() const;
  Status load_residuals(std::vector<SavedResidual> saved);
  /// What it takes, in bytes.
  [[nodiscard]] std::size_t residual_bytes() const;
  /// What compression last left over of each tensor, by process set and name, where the setting
  /// asks for it.
  [[nodiscard]] std::map<std::pair<int, std::string>, CompressionLoss> compression_losses() const;

  /// Starts or stops writing a timeline on this rank. `mark_cycles`: see Recorder::Options.
  Status start_timeline(const std::string& path, bool mark_cycles = false);
  Status stop_timeline();
  /// Leaves out of the timeline what happens until it is switched on again. No operation may be
  /// under way. Nothing where no timeline is written.
  void pause_timeline(bool paused);

  /// Marks for the timeline, on this rank; nothing while it is off. Spans may nest, in one thread.
  void mark(std::string_view name);
  void begin_mark(std::string_view name);
  void end_mark();
  /// Says that a training step ends here, once its operations are done.
  void mark_step();
  /// Says which part of training begins here ("backward"), and that the one before ends; an empty
  /// name begins none. Apart from the other marks: any thread may say so.
  void mark_pass(std::string_view name);

  /// Waits for operations in flight to end or fail, leaves the job, stops all threads. Idempotent.
  /// `why` is told to ranks that still wait for this one: UTF-8, its first 512 bytes.
  void shutdown(std::string_view why = {}) noexcept;

  /// Makes all waits of this runtime return kInterrupted, now. Safe in signal handlers.
  void interrupt() noexcept;

  /// What runs where, for doctor: one line per backend with "usable" or why not.
  [[nodiscard]] std::vector<std::string> describe_backends() const;

 private:
  class Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde
