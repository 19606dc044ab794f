// The kernels: strips.h says what each thread does.
#include "backends/cuda/kernels.h"

namespace ronde::cuda {
namespace {

template <typename Table>
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ Table table) {
  copy_tile(table, blockIdx.x, threadIdx.x);
}

template <typename From, typename To, typename Table>
__global__ void __launch_bounds__(kThreads) transform_kernel(const __grid_constant__ Table table) {
  transform_tile<From, To>(table, blockIdx.x, threadIdx.x);
}

template <typename Table>
cudaError_t launch_any(const StripLaunch& launch, const Table& table, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(launch.tiles);
  if (launch.copies) {
    copy_kernel<<<blocks, kThreads, 0, stream>>>(table);
    return cudaGetLastError();
  }
  const bool known = visit_types(launch.from, launch.to, [&]<typename From, typename To>() {
    transform_kernel<From, To><<<blocks, kThreads, 0, stream>>>(table);
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

}  // namespace

cudaError_t launch_strips(const StripLaunch& launch, const SmallTable& table, cudaStream_t stream) {
  return launch_any(launch, table, stream);
}

cudaError_t launch_strips(const StripLaunch& launch, const LargeTable& table, cudaStream_t stream) {
  return launch_any(launch, table, stream);
}

}  // namespace ronde::cuda
