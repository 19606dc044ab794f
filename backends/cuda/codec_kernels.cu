// The kernels of compression: codecs.h says what each thread does.
#include "backends/cuda/codec_kernels.h"

namespace ronde::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) encode_halves_kernel(const EncodeWork work) {
  encode_halves(work, blockIdx.x, threadIdx.x);
}

/// The largest of all threads' numbers, in every thread.
__device__ std::uint32_t largest_of_block(std::uint32_t mine) {
  constexpr unsigned kWarp = 32;
  __shared__ std::uint32_t of_warps[kThreads / kWarp];
  for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
    mine = max(mine, __shfl_xor_sync(0xffffffffU, mine, apart));
  }
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  for (const std::uint32_t other : of_warps) mine = max(mine, other);
  return mine;
}

__global__ void __launch_bounds__(kThreads) encode_multiples_kernel(const EncodeWork work) {
  const std::uint32_t largest = largest_of_block(largest_of(work, blockIdx.x, threadIdx.x));
  encode_multiples(work, blockIdx.x, threadIdx.x, largest);
}

__global__ void __launch_bounds__(kThreads) decode_kernel(const DecodeWork work) {
  decode_block(work, blockIdx.x, threadIdx.x);
}

template <typename Work>
unsigned blocks_of(const Work& work) {
  return static_cast<unsigned>(tiles_of(work.count, work.block));
}

}  // namespace

int launch_encode(const EncodeWork& work, void* stream) {
  if (work.count == 0) return cudaSuccess;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (is_half(work.format)) {
    encode_halves_kernel<<<blocks_of(work), kThreads, 0, on>>>(work);
  } else {
    encode_multiples_kernel<<<blocks_of(work), kThreads, 0, on>>>(work);
  }
  return cudaGetLastError();
}

int launch_decode(const DecodeWork& work, void* stream) {
  if (work.count == 0) return cudaSuccess;
  decode_kernel<<<blocks_of(work), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(work);
  return cudaGetLastError();
}

}  // namespace ronde::cuda
