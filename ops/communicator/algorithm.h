// A communicator for all work of the host: by the collectives of another where they are best, else
// by the algorithms of ops/ over its transport.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/communicator.h"
#include "ops/memory/fusion_buffer.h"
#include "ops/selection/path.h"
#include "ops/selection/selector.h"
#include "ops/transfer.h"

namespace ronde {

class PartialReduction;

/// How the ranks of a group move data in host memory.
struct AlgorithmOptions {
  std::shared_ptr<const ReduceKernels> kernels;
  std::string algorithm = {};            ///< The user's override; see selector.h.
  std::vector<SelectionRow> tuned = {};  ///< Rows that come before the selection table.
  /// Reductions use the algorithm "direct": they give the same bits however tensors are fused, cut
  /// and ordered (Config has it too).
  bool deterministic = false;
  int rank = 0;
  int size = 1;
};

/// How one piece of host work is done.
struct Route {
  Path path = Path::kNone;
  const Algorithm* algorithm = nullptr;  ///< kAlgorithm only.
};

/// Threads: one at a time.
class AlgorithmCommunicator final : public Communicator {
 public:
  /// `inner` is null only where size is 1.
  AlgorithmCommunicator(std::unique_ptr<Communicator> inner, AlgorithmOptions options);
  /// Over point-to-point alone, which outlives it: some ranks of a group, such as one of each host.
  AlgorithmCommunicator(Transport& transport, AlgorithmOptions options);

  /// The facts of dense work for the path table. Threads: as run.
  [[nodiscard]] Facts facts(const Work& work) const noexcept {
    const bool native =
        inner_->traits().supports.has(work.kind, work.reduction.dtype, work.reduction.op);
    return fixed_facts_ | when(native, Fact::kNative);
  }
  /// The route of dense work; the same on all ranks.
  /// Errors: kUnsupported where neither the inner communicator nor an algorithm does it.
  [[nodiscard]] Result<Route> route(const Work& work) const;
  /// Runs work by the route that route() gave for it.
  /// Errors: as Communicator::run; kAborted where memory runs out midway.
  Status run(const Work& work, const Route& route, const AbortToken& abort);
  /// As above, by the route of the work.
  Status run(const Work& work, DeviceStream /*stream*/, const AbortToken& abort) override {
    RONDE_ASSIGN_OR_RETURN(const Route by, route(work));
    return run(work, by, abort);
  }

  void abandon(const Status& why) noexcept override { inner_->abandon(why); }

  [[nodiscard]] Transport* transport() noexcept override { return transport_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, DeviceStream stream) override {
    return inner_->allocate(bytes, stream);
  }

  /// "native", "ring", ...; empty for copies.
  [[nodiscard]] static std::string_view algorithm_name(const Route& route) noexcept;
  [[nodiscard]] const std::shared_ptr<const ReduceKernels>& kernels() const noexcept {
    return kernels_;
  }
  /// True if the inner collectives are best: ranks share memory, or have two levels.
  [[nodiscard]] bool prefers_native() const noexcept {
    return (fixed_facts_ & static_cast<Facts>(Fact::kPrefersNative)) != 0;
  }
  /// A communicator of some ranks of this group, over the transport `some`, by the same rows.
  /// `some` outlives it.
  [[nodiscard]] std::unique_ptr<AlgorithmCommunicator> among(Transport& some) const;

 private:
  Status run_native(const Work& work, const AbortToken& abort);
  Status run_flat(const Work& work, const Route& route, const AbortToken& abort);
  Status run_plain(const FlatWork& flat, const Work& work);
  Status run_wide(const FlatWork& flat, const Work& work, const PartialReduction& partial);

  Transport* const transport_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  const std::string algorithm_;
  const std::vector<SelectionRow> tuned_;
  const int rank_;
  const int size_;
  const Facts fixed_facts_;  // the same for all work
  const bool reports_packing_;
  const std::unique_ptr<Communicator> inner_;
  HostCopyEngine copies_;
  FusionBuffer buffer_;  // its memory belongs to the inner communicator: ends first
  Scratch scratch_;
};

/// Every output is the input, scaled where the kind reduces. Called "self".
class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(std::shared_ptr<const ReduceKernels> kernels);
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;

 private:
  const std::shared_ptr<const ReduceKernels> kernels_;
};

}  // namespace ronde
