// Runs the agreed bundles of one group, each work by the communicator that serves it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/device/device_parts.h"
#include "ops/execution/host_communicators.h"
#include "ops/execution/mean_check.h"
#include "ops/execution/sum_check.h"
#include "ops/sparse/choice.h"

namespace ronde {

class ResidualStore;

/// The parts and settings of an executor.
struct ExecutorOptions : AlgorithmOptions {
  HostParts host;                            ///< For host memory.
  const EventSwitch* events = nullptr;       ///< Outlives the executor; may be null.
  std::shared_ptr<ResidualStore> residuals;  ///< Null: compression without error feedback.
  /// Note the norm of a tensor's residual every N of its steps (0: never).
  std::size_t loss_steps = 0;
  int set = 0;                   ///< The process set, as residuals are kept by it.
  std::string set_name;          ///< In timelines; empty: the global set's.
  bool finds_nonfinite = false;  ///< BundleTensor::finding is served; the same on all ranks.
  /// BundleTensor::checks_mean is served; none: it is not. The same on all ranks.
  std::optional<MeanCheckOptions> check_mean;
  std::optional<SumCheckOptions> check_sums;  ///< None: no sum is drawn. The same on all ranks.
  /// Is shown each work that is about to run; empty: nobody.
  std::function<void(const Bundle&, const Work&)> on_work;
  /// Is shown each work that has ended, before its results are looked at, and if it has run without
  /// an error; empty: nobody.
  std::function<void(const Bundle&, const Work&, bool ran)> on_result;
  DeviceOpener open_device;               ///< Empty: tensors in device memory are kUnsupported.
  SparsePath sparse = SparsePath::kAuto;  ///< Of sparse allreduces; the same on all ranks.
};

/// Makes the executor of ops/. Beyond the contract of Executor:
/// - Outputs and their sizes: OutputPlanner. Communicators: WorkBinder.
/// - Average, prescale and postscale: reduction_for() in ops/execution/output_planner.h.
/// - Deterministic: reductions over a transport use the algorithm "direct", whatever the override
///   says. A communicator that is native_first adds in ascending order of ranks anyway.
///
/// Errors: kInvalidArgument for an unknown algorithm, listing what is allowed; kUnsupported where
/// an algorithm is asked for and the communicator has no point-to-point.
Result<std::unique_ptr<Executor>> create_executor(ExecutorOptions options);

}  // namespace ronde
