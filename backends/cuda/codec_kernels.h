// The door to the kernels of codecs.h, sign.h and scatter.h: all that the compiler for the device
// must see is behind it.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/codecs.h"
#include "backends/cuda/scatter.h"

namespace ronde::cuda {

/// Each launches one table of so many tiles on a stream; `type` is that of the elements which are
/// read or written. The table is copied before the call returns. Errors: CUDA's;
/// cudaErrorNotSupported for types that visit_floating() does not know.
cudaError_t launch_encode(const SmallEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream);
cudaError_t launch_encode(const LargeEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream);
cudaError_t launch_decode(const SmallDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream);
cudaError_t launch_decode(const LargeDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream);
cudaError_t launch_scatter(const SmallScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream);
cudaError_t launch_scatter(const LargeScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream);
cudaError_t launch_commit(const SmallCommitTable& table, std::size_t tiles, cudaStream_t stream);
cudaError_t launch_commit(const LargeCommitTable& table, std::size_t tiles, cudaStream_t stream);

}  // namespace ronde::cuda
