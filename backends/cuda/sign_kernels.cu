// The kernels of onebit: sign.h says what each thread does.
#include "backends/cuda/sign_kernels.h"

namespace ronde::cuda {
namespace {

/// The thread's place: its block of values, its lane there, and where both are in a warp's bits.
struct SignThread {
  __device__ SignThread()
      : group(threadIdx.x / kSignLanes),
        lane(threadIdx.x % kSignLanes),
        index(std::size_t{blockIdx.x} * kSignGroups + group),
        shift(group % 2 * kSignLanes) {}
  unsigned group;
  unsigned lane;
  std::size_t index;
  unsigned shift;
};

__global__ void __launch_bounds__(kThreads) encode_signs_kernel(const EncodeWork work) {
  __shared__ LaneSums lanes[kThreads];
  const SignThread thread;
  const bool present = thread.index < tiles_of(work.count, work.block);
  if (present) lanes[threadIdx.x] = lane_sums(work, thread.index, thread.lane);
  __syncthreads();
  if (!present) return;
  const unsigned together = 0xffffU << thread.shift;
  const SignMeans means = sign_means(work, thread.index, lanes + thread.group * kSignLanes);
  __syncwarp(together);  // residuals are read until here and written from here on
  const BlockOf block(work, thread.index);
  for (std::size_t first = 0; first < block.count; first += kSignLanes) {
    const bool sign = sign_at(work, block, first + thread.lane, means);
    const unsigned signs = __ballot_sync(together, sign) >> thread.shift;
    write_signs(block, first, signs, thread.lane);
  }
  write_means(block, means, thread.lane);
}

__global__ void __launch_bounds__(kThreads) decode_signs_kernel(const DecodeWork work) {
  const SignThread thread;
  if (thread.index < tiles_of(work.count, work.block)) {
    decode_signs(work, thread.index, thread.lane);
  }
}

template <typename Work>
unsigned blocks_of(const Work& work) {
  return static_cast<unsigned>(tiles_of(tiles_of(work.count, work.block), kSignGroups));
}

}  // namespace

int launch_encode_signs(const EncodeWork& work, void* stream) {
  if (work.count == 0) return cudaSuccess;
  encode_signs_kernel<<<blocks_of(work), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(work);
  return cudaGetLastError();
}

int launch_decode_signs(const DecodeWork& work, void* stream) {
  if (work.count == 0) return cudaSuccess;
  decode_signs_kernel<<<blocks_of(work), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(work);
  return cudaGetLastError();
}

}  // namespace ronde::cuda
