// Opens executors, raw groups and shared memory for given ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "bindings/runtime/groups/agreements.h"
#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/groups/group_opener.h"
#include "bindings/runtime/groups/raw_group.h"
#include "bindings/runtime/groups/runtime_state.h"
#include "core/base/mutex.h"
#include "core/base/settings/config.h"
#include "core/base/status.h"
#include "core/engine/records/operation_ring.h"
#include "core/ports/event_sink.h"
#include "core/ports/reduce_kernels.h"
#include "core/ports/topology.h"
#include "ops/compression/residuals.h"
#include "ops/execution/executor.h"

namespace ronde {

/// The executor to open.
struct GroupRequest {
  std::uint64_t key = 0;         ///< The same on all its ranks, no other group's.
  std::vector<int> ranks;        ///< Ranks of the job, ascending.
  SetId set = kGlobalSet;        ///< Residuals are kept by it.
  std::string set_name = {};     ///< As ExecutorOptions has it.
  bool finds_nonfinite = false;  ///< As ExecutorOptions has it.
  std::string algorithm = {};    ///< In place of the setting; empty: the setting's.
};

/// Opens the data planes of groups of ranks. Threads: any.
class GroupFactory {
 public:
  /// All references outlive it and the executors.
  struct Options {
    const Config& config;
    const Topology& topology;
    const RuntimeState& state;
    const Registry& registry;
    const EventSwitch& events;
    Devices& devices;
    GroupKeys& keys;
    MakeExchange make_exchange;
    std::shared_ptr<AbortToken> abort;
    std::shared_ptr<const ReduceKernels> kernels;
    std::shared_ptr<ResidualStore> residuals;
    std::shared_ptr<OperationRing> records;
    std::shared_ptr<SumWitness> witness = {};  ///< For Config::check_sums; else null.
    std::function<void(const Bundle&, const Work&)> on_work = {};  ///< As ExecutorOptions has it.
    std::function<void(const Bundle&, const Work&, bool ran)> on_result = {};  ///< The same.
    MeanCheckOptions check_mean = {};      ///< For Config::check_mean.
    std::vector<SelectionRow> tuned = {};  ///< Rows of rank 0's tuning file.
  };
  explicit GroupFactory(Options options) : options_(std::move(options)) {}

  /// Opens data plane and executor of a group. Collective over its ranks. Blocks.
  Result<std::unique_ptr<Executor>> open_executor(const GroupRequest& request,
                                                  const WaitOptions& options)
      RONDE_EXCLUDES(mutex_);
  /// Opens a raw group of the job's `ranks`. Collective over them. Blocks.
  /// `algorithm`: as GroupRequest has it.
  Result<std::unique_ptr<RawGroup>> open(std::vector<int> ranks, std::string algorithm = {});
  /// Memory for a tensor, all zeros. Where the data plane has memory that the ranks of this host
  /// share, collectives need no copy of it. It may outlive the runtime.
  /// Errors: kResourceExhausted, kNotInitialized.
  Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes);
  /// One line per backend for doctor: "usable", or why not.
  [[nodiscard]] std::vector<std::string> describe_backends() const;

 private:
  [[nodiscard]] GroupSpec group_spec(std::uint64_t key, const std::vector<int>& ranks) const;
  [[nodiscard]] ExecutorOptions executor_options(OpenedGroup opened, const GroupSpec& spec,
                                                 const std::string& algorithm);
  Result<DeviceParts> open_device(int index, GroupSpec spec, const std::string& algorithm);
  void warn_of_fallback(const OpenedGroup& opened) RONDE_EXCLUDES(mutex_);

  const Options options_;
  Mutex mutex_;
  std::set<std::string> warned_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
