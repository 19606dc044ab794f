// Runs the agreed bundles of one group: plans their outputs, binds compression, and runs the work
// over the communicators of its memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "core/ports/reduce_kernels.h"
#include "ops/device/device_parts.h"
#include "ops/execution/host_communicators.h"
#include "ops/selection/selector.h"

namespace ronde {

class ResidualStore;

/// What an executor works with, for one group.
struct ExecutorOptions {
  HostParts host;  ///< What serves host memory.
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
/// - Paths are chosen by the tables of ops/selection/path.h and selector.h: a communicator's own
///   collective, an algorithm over its transport, or through the host for a device.
/// - Deterministic: reductions over a transport use the algorithm "direct", whatever the override
///   says. A communicator that is native_first does its own as ever: it adds in ascending order of
///   ranks.
/// - Average, prescale and postscale: see reduction_for() in ops/execution/scaling.h.
/// - Sizes and outputs: see OutputPlanner.
/// - Compressed allreduces: see CompressionBinder; `auto`: ops/execution/auto_compression.h. In
///   deterministic mode `auto` compresses nothing, as what it chooses depends on time.
/// - Tensors in device memory: see DeviceRunner; sizes and splits are exchanged over the host.
class CollectiveExecutor : public Executor {
 public:
  /// The path of what ran last: "shm", "ring over tcp", "local" (one rank), empty at first.
  /// Threads: as execute.
  [[nodiscard]] virtual std::string last_path() const = 0;
  /// What compression made of what ran last; zeros where it was dense. Threads: as execute.
  [[nodiscard]] virtual CompressionFacts last_compression() const = 0;
  /// What `auto` compression has measured and chosen, for people; empty before it was asked for.
  /// Threads: as execute.
  [[nodiscard]] virtual std::vector<std::string> explain_compression() const = 0;
};

/// Makes an executor.
/// Errors: kInvalidArgument for an unknown algorithm, listing what is allowed; kUnsupported where
/// an algorithm is asked for and the communicator has no point-to-point.
Result<std::unique_ptr<CollectiveExecutor>> create_executor(ExecutorOptions options);

}  // namespace ronde
