#include "ops/communicator/compressed.h"

#include <fmt/format.h>

#include <new>
#include <utility>
#include <vector>

#include "ops/compression/compressed_allreduce.h"

namespace ronde {
namespace {

/// The pieces of the bundle's tensors that the work's segments are.
std::vector<CompressedPiece> placed_pieces(const Work& work) {
  std::vector<CompressedPiece> pieces = pieces_of(work);
  for (std::size_t i = 0; i < work.origins.size(); ++i) {
    pieces[i].tensor = work.origins[i].tensor;
    pieces[i].begin = work.origins[i].begin;
  }
  return pieces;
}

}  // namespace

TransportCompressed::TransportCompressed(std::string name, Transport& transport,
                                         std::shared_ptr<const ReduceKernels> kernels)
    : CompressedCommunicator(
          {.name = std::move(name),
           .supports = SupportTable::of([](Collective kind, DType dtype, ReduceOp) {
             return kind == Collective::kAllreduce && is_floating(dtype);
           }),
           .native_first = true,
           .lossy = true}),
      transport_(transport),
      kernels_(std::move(kernels)) {}

Status TransportCompressed::run(const Work& work, DeviceStream /*stream*/,
                                const AbortToken& abort) {
  const Phase whole(work.phases, "COMPRESS AND EXCHANGE");
  const std::size_t index = begin_run();
  try {
    if (index >= left_.size()) left_.resize(index + 1);
    const std::vector<CompressedPiece> pieces = placed_pieces(work);
    CompressedAllreduce allreduce{
        .kernels = *kernels_,
        .abort = abort,
        .compression = bound(),
        .pieces = pieces,
        .in_dtype = work.reduction.dtype,
        .out_dtype = work.reduction.dtype,
        .factor = work.reduction.scaling.pre * work.reduction.scaling.post};
    const std::size_t kept = count_elements(pieces) * bound().kept_floats();
    if (kept > 0) {
      allreduce.left = reinterpret_cast<float*>(left_[index].block(0, kept * sizeof(float)));
    }
    return compressed_allreduce(transport_, allreduce, scratch_);
  } catch (const std::bad_alloc&) {  // other ranks wait for this one: the group is broken
    return {Code::kAborted,
            fmt::format("out of memory in compressed allreduce of {} bytes", total_bytes(work))};
  }
}

}  // namespace ronde
