// Turns agreed bundles into work for a data plane: sizes, outputs, scaling, algorithm, fusion.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "core/ports/reduce_kernels.h"
#include "ops/device/device_parts.h"
#include "ops/selection/selector.h"

namespace ronde {

class ResidualStore;

/// What an executor works with, for one group.
struct ExecutorOptions {
  std::unique_ptr<BackendGroup> plane;  ///< Null only where size is 1.
  std::string plane_name;               ///< "shm", "tcp", ... as last_path() shows it.
  bool native_first = false;            ///< As Backend::native_first().
  std::shared_ptr<const ReduceKernels> kernels;
  std::vector<SelectionRow> tuned;  ///< Rows that come before the selection table.
  std::string algorithm;            ///< Override, see ops/selector.h; empty lets the table decide.
  /// Reductions give the same bits however tensors are fused, cut and ordered (Config has it too).
  bool deterministic = false;
  const EventGate* events = nullptr;         ///< Outlives the executor; may be null.
  std::shared_ptr<ResidualStore> residuals;  ///< Null: compression without error feedback.
  /// Each how many steps of a tensor the norm of what compression leaves over is noted; 0 never.
  std::size_t loss_steps = 0;
  int set = 0;               ///< The process set, as residuals are kept by it.
  DeviceOpener open_device;  ///< Empty: tensors in device memory are kUnsupported.
  int rank = 0;
  int size = 1;
};

/// The executor of ops/. Beyond the contract of Executor:
/// - The data plane's own collective runs where the plane prefers it (native_first, and no override
///   but "native"), or has no transport, or the override is "native"; and where supports() says
///   yes. Everything else is an algorithm of ops/ over the plane's transport.
/// - Deterministic: reductions over the transport use the algorithm "direct", whatever the override
///   says. A plane that is native_first does its own as ever: it adds in ascending order of ranks.
/// - Average, prescale and postscale: see reduction_for() in ops/scaling.h.
/// - allgather, gather: first extents are exchanged first, so they may differ; a tensor without
///   dimensions counts as one row.
/// - alltoall: splits are exchanged first; wrong ones are an error on all ranks, see ops/extents.h.
/// - reduce_scatter: rank r of n gets rows/n rows and the first rows%n ranks one more.
/// - Compressed allreduces: see ops/compressor.h; `auto`: ops/auto_compression.h. In deterministic
///   mode `auto` compresses nothing, as what it chooses depends on time.
/// - Where an output cannot be allocated on this rank, the rank still takes part and then returns
///   the allocator's error, so that the group stays usable.
/// - Tensors in device memory: see DeviceRunner; sizes and splits still meet over the plane.
/// - Outputs that only the root writes are asked of `allocate` at the root alone.
class CollectiveExecutor : public Executor {
 public:
  /// What ran last: "shm", "ring over tcp", "local" (one rank), empty at first. Threads: as
  /// execute.
  [[nodiscard]] virtual std::string last_path() const = 0;
  /// What compression made of what ran last; zeros where it was dense. Threads: as execute.
  [[nodiscard]] virtual CompressionFacts last_compression() const = 0;
  /// What `auto` compression has measured and chosen, for people; empty before it was asked for.
  /// Threads: as execute.
  [[nodiscard]] virtual std::vector<std::string> explain_compression() const = 0;
};

/// Makes an executor.
/// Errors: kInvalidArgument for an unknown algorithm, listing what is allowed; kUnsupported where
/// an algorithm is asked for and the data plane has no point-to-point.
Result<std::unique_ptr<CollectiveExecutor>> create_executor(ExecutorOptions options);

}  // namespace ronde
