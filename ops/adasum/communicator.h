// A communicator for Adasum allreduces in host memory, over the collectives of another.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/communicator.h"
#include "ops/adasum/slice.h"
#include "ops/adasum/tree.h"
#include "ops/communicator/number_exchange.h"
#include "ops/memory/fusion_buffer.h"
#include "ops/memory/memory.h"
#include "ops/transfer.h"

namespace ronde {

/// Each rank gets all inputs of its chunk of every tensor by an alltoall. At each of the
/// ceil(log2 n) levels of the tree the ranks exchange their shares of the dot products: 48 bytes
/// for each pair and tensor. Chunks of the result are rounded once, and gathered. A rank sends
/// 2(n-1)/n S bytes. All ranks get the same bits, however tensors are fused.
/// Threads: one at a time.
class AdasumCommunicator final : public Communicator {
 public:
  /// For rank `rank` of `size`. `host` outlives it.
  AdasumCommunicator(Communicator& host, std::shared_ptr<const ReduceKernels> kernels, int rank,
                     int size);

  /// Runs an allreduce whose op is kAdasum. Each segment is a whole tensor; a null `in` counts as
  /// zeros. Errors: as Communicator::run; kAborted where memory runs out midway.
  Status run(const Work& work, DeviceStream stream, const AbortToken& abort) override;

 private:
  /// This rank's chunk of one tensor: all ranks' inputs, their coefficients, the result.
  struct Part {
    std::size_t count = 0;
    std::vector<const std::byte*> inputs;  ///< By rank.
    std::byte* out = nullptr;
    std::vector<DoubleDouble> coefficients;  ///< By rank.
  };

  Status reduce(const Work& work, const AbortToken& abort);
  void divide(const Work& work);
  Status exchange(const Work& work, const AbortToken& abort);
  Status combine_level(const Work& work, std::size_t level, const AbortToken& abort);
  void round_parts(const Work& work);
  Status gather(const Work& work, const AbortToken& abort);
  [[nodiscard]] AdasumSlice slice_of(const Work& work, const Part& part) const {
    return {*kernels_, work.reduction.dtype, part.inputs, part.count};
  }

  Communicator& host_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  const std::size_t rank_;
  const std::size_t size_;
  NumberExchange exchange_;
  HostCopyEngine copies_;
  FusionBuffer packed_;
  Scratch scratch_;
  // The work under way.
  std::vector<std::size_t> chunk_bytes_;  // by segment and rank
  std::vector<Part> parts_;               // by segment
  std::vector<std::int64_t> shares_;      // of dot products
};

}  // namespace ronde
