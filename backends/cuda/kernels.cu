// The kernels of batched copies: batched_copy.h says what each thread does.
#include "backends/cuda/kernels.h"
#include "backends/cuda/launch.h"

namespace ronde::cuda {
namespace {

struct CopyKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { copy_tile(table, block.index(), thread); });
  }
};

template <typename From, typename To>
struct TransformKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { transform_tile<From, To>(table, block.index(), thread); });
  }
};

}  // namespace

template <typename Table>
cudaError_t launch_copies(const CopyLaunch& work, const Table& table, cudaStream_t stream) {
  const Grid grid{.blocks = work.tiles};
  if (work.is_plain) return launch<CopyKernel>(grid, stream, table);
  cudaError_t code = cudaErrorNotSupported;
  visit_types(work.from, work.to, [&]<typename From, typename To>() {
    code = launch<TransformKernel<From, To>>(grid, stream, table);
  });
  return code;
}

template cudaError_t launch_copies(const CopyLaunch&, const SmallCopyTable&, cudaStream_t);
template cudaError_t launch_copies(const CopyLaunch&, const LargeCopyTable&, cudaStream_t);

}  // namespace ronde::cuda
