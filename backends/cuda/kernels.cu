// The kernels of batched copies: batched_copy.h says what each thread does.
#include "backends/cuda/batched_copy.h"
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

cudaError_t launch_copies(const BatchedCopy& work, cudaStream_t stream) {
  const bool plain = work.from == work.to && work.scale == 1.0;
  const std::size_t unit = plain ? size_of(work.from) : 1;  // plain copies count bytes
  return launch_tables<SmallCopyTable, LargeCopyTable>(
      work.copies, {work.scale}, plain ? kTileBytes : kTileElements,
      [&](const auto& table, std::size_t tiles) {
        const Grid grid{.blocks = tiles};
        if (plain) return launch<CopyKernel>(grid, stream, table);
        cudaError_t code = cudaErrorNotSupported;
        visit_types(work.from, work.to, [&]<typename From, typename To>() {
          code = launch<TransformKernel<From, To>>(grid, stream, table);
        });
        return code;
      },
      [unit](const DeviceCopy& copy) {
        return DeviceCopy{copy.in, copy.out, copy.count * unit};
      });
}

}  // namespace ronde::cuda
