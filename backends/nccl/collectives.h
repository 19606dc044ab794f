// Runs Ronde's collectives by calls of NCCL.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "backends/nccl/communicator.h"
#include "core/ports/communicator.h"

namespace ronde::nccl {

/// The work that NCCL can do. Its reductions lack int16 and the bitwise operations, and have fp8 on
/// some devices only.
SupportTable supported();

/// Queues agreed work of one segment. Averages of floating types multiply before they add, so that
/// no sum overflows. Each product is rounded once, each sum as NCCL rounds it. Threads: one at a
/// time.
class Collectives {
 public:
  Collectives(Communicator& communicator, std::shared_ptr<DeviceOps> device, int rank, int size);

  /// True for collectives that calls of NCCL do.
  static bool has(Collective kind) noexcept { return step_of(kind) != nullptr; }

  /// Errors: as Communicator::run.
  Status launch(const Work& work, DeviceStream stream);

 private:
  /// A reduction's factors, by the part that applies them.
  struct Factors {
    double inside = 1.0;  ///< NCCL, to each input of a floating sum.
    double before = 1.0;  ///< A kernel of Ronde.
    double after = 1.0;
  };
  struct Buffers {
    const std::byte* in;
    std::byte* out;
    cudaStream_t stream;
  };
  using Step = Status (Collectives::*)(const Work&, const Buffers&);
  static Step step_of(Collective kind) noexcept;  ///< Null: NCCL has no call for it.
  static Factors factors_of(const Reduction& reduction);

  Status reduce(const Work& work, const Buffers& given);
  Status reduce_scaled(const Work& work, const Buffers& buffers, double inside);
  Status reduce_scatter(const Work& work, const Buffers& buffers, ncclRedOp_t op);
  Status allgather(const Work& work, const Buffers& buffers);
  Status broadcast(const Work& work, const Buffers& buffers);
  Status exchange(const Work& work, const Buffers& buffers);
  ncclResult_t send_parts(const Work& work, const Buffers& buffers, ncclComm_t handle);
  ncclResult_t receive_parts(const Work& work, const Buffers& buffers, ncclComm_t handle);
  Result<ncclRedOp_t> operation(const Reduction& reduction, double inside);
  Status scale(DType dtype, double factor, const void* in, void* out, std::size_t bytes,
               cudaStream_t stream);
  [[nodiscard]] std::size_t output_bytes(const Work& work) const;

  Communicator& communicator_;
  const Api& api_;
  const std::shared_ptr<DeviceOps> device_;
  const int rank_;
  const int size_;
  std::map<std::pair<DType, double>, ncclRedOp_t> scaled_sums_;  // they end with the communicator
  std::shared_ptr<std::byte> scratch_;  // scaled inputs, where the caller's must not change
  std::size_t scratch_bytes_ = 0;
};

}  // namespace ronde::nccl
