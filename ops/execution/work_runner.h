// Runs agreed work for one group: picks the route (the data plane's own collective, an algorithm
// of ops/ over its transport, or nothing but copies where the group has one rank) and takes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/event_sink.h"
#include "ops/execution/executor.h"
#include "ops/execution/fusion_buffer.h"
#include "ops/execution/phases.h"
#include "ops/scratch.h"
#include "ops/selection/selector.h"

namespace ronde {

/// How one piece of work is done.
struct Route {
  enum class Way : std::uint8_t { kNone, kLocal, kNative, kAlgorithm, kCompressed };
  Way way = Way::kNone;
  const Algorithm* algorithm = nullptr;  ///< kAlgorithm only.
};

/// Threads: one at a time.
class WorkRunner {
 public:
  /// Takes over everything but `rank`, `size` and `events`, which it reads.
  explicit WorkRunner(ExecutorOptions& options);

  /// The route for work like `desc`; the same on all ranks.
  /// Errors: kUnsupported where the plane neither does it nor has a transport.
  Result<Route> route(const WorkDesc& desc) const;

  /// Does `work`. Blocks. Reports copies into and out of the fusion buffer, and the algorithm
  /// between them, to `phases` where that is not null. Errors: as BackendGroup::run; kAborted where
  /// memory runs out midway.
  Status run(const Work& work, const Route& route, const AbortToken& abort,
             Phases* phases = nullptr);

  /// Does an allreduce of flat host memory among some ranks of the group, whose wires `some` leads
  /// over. Blocks. Errors: as run.
  Status allreduce_among(Transport& some, const FlatWork& work);
  /// The plane's, or null where it has none.
  [[nodiscard]] Transport* transport() const noexcept { return transport_; }

  /// "native", "ring", ...; and "shm", "ring over tcp", "local".
  [[nodiscard]] static std::string_view algorithm_name(const Route& route) noexcept;
  [[nodiscard]] std::string path(const Route& route) const;
  [[nodiscard]] const ReduceKernels& kernels() const noexcept { return *kernels_; }
  [[nodiscard]] std::string_view plane_name() const noexcept { return plane_name_; }
  /// Whether the plane itself is what it does best, and has no links that it could compress for.
  [[nodiscard]] bool in_memory() const noexcept {
    return plane_ != nullptr && prefers_native_ && !compresses();
  }
  /// As BackendGroup::compresses().
  [[nodiscard]] bool compresses() const noexcept {
    return plane_ != nullptr && plane_->compresses();
  }
  /// As BackendGroup::polls().
  [[nodiscard]] bool polls() const noexcept { return plane_ == nullptr || plane_->polls(); }

 private:
  Status run_native(const Work& work, const AbortToken& abort, Phases* phases);
  Status run_algorithm(const Work& work, const Algorithm& algorithm, const AbortToken& abort,
                       Phases* phases);

  Status run_compressed(const Work& work, const AbortToken& abort, Phases* phases);

  const std::string plane_name_;
  const std::string algorithm_;
  const std::vector<SelectionRow> tuned_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  const std::unique_ptr<BackendGroup> plane_;
  Transport* const transport_;
  const int size_;
  const bool prefers_native_;
  HostCopyEngine copies_;
  FusionBuffer buffer_;  // its memory belongs to the plane: ends first
  Scratch scratch_;
};

}  // namespace ronde
