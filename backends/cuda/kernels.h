// Launches of all kernels, for any number of runs, which are copied before a call returns. Only the
// *.cu files behind them need the compiler for the devices. Errors: CUDA's; cudaErrorNotSupported
// for types without a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "core/ports/device_codecs.h"
#include "core/ports/device_ops.h"

namespace ronde::cuda {

cudaError_t launch_copies(const BatchedCopy& work, cudaStream_t stream);
cudaError_t launch_encode(const EncodeWork& work, cudaStream_t stream);
cudaError_t launch_decode(const DecodeWork& work, cudaStream_t stream);
cudaError_t launch_commit(std::span<const CommitRun> runs, cudaStream_t stream);
cudaError_t launch_select(const SelectWork& work, cudaStream_t stream);
cudaError_t launch_scatter(const ScatterWork& work, cudaStream_t stream);

/// SelectRun::scratch has so many bytes.
std::size_t select_scratch(std::size_t count) noexcept;

}  // namespace ronde::cuda
