// The kernels of compression: codecs.h, sign.h and scatter.h say what each thread does.
#include "backends/cuda/codec_kernels.h"
#include "backends/cuda/sign.h"

namespace ronde::cuda {
namespace {

template <typename From, typename Table>
__global__ void __launch_bounds__(kThreads)
    encode_halves_kernel(const __grid_constant__ Table table) {
  encode_halves<From>(table, blockIdx.x, threadIdx.x);
}

/// The largest of all threads' numbers, in every thread; a meeting of all of them.
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

template <typename From, typename Table>
__global__ void __launch_bounds__(kThreads)
    encode_multiples_kernel(const __grid_constant__ Table table) {
  extern __shared__ float values[];
  const std::uint32_t mine = gather_block<From>(table, blockIdx.x, threadIdx.x, values);
  quantise_block(table, blockIdx.x, threadIdx.x, values, largest_of_block(mine));
}

template <typename From, typename Table>
__global__ void __launch_bounds__(kThreads)
    encode_signs_kernel(const __grid_constant__ Table table) {
  extern __shared__ float values[];
  __shared__ LaneSums lanes[kThreads];
  gather_tile<From>(table, blockIdx.x, threadIdx.x, values);
  __syncthreads();
  const unsigned group = threadIdx.x / kSignLanes;
  const unsigned lane = threadIdx.x % kSignLanes;
  const SignBlock block = sign_block(table, blockIdx.x, group, values);
  lanes[threadIdx.x] = lane_sums(block, lane);
  __syncthreads();
  const SignMeans means = sign_means(block, lanes + group * kSignLanes);
  const unsigned shift = group % 2 * kSignLanes;  // of the lanes' bits in their warp's
  for (std::size_t first = 0; first < block.count; first += kSignLanes) {
    const bool sign = sign_at(block, first + lane, means);
    write_signs(block, first, __ballot_sync(0xffffU << shift, sign) >> shift, lane);
  }
  write_means(block, means, lane);
}

template <typename To, typename Table>
__global__ void __launch_bounds__(kThreads) decode_kernel(const __grid_constant__ Table table) {
  decode_tile<To>(table, blockIdx.x, threadIdx.x);
}

template <typename To, typename Table>
__global__ void __launch_bounds__(kThreads) scatter_kernel(const __grid_constant__ Table table) {
  scatter_tile<To>(table, blockIdx.x, threadIdx.x);
}

template <typename Table>
__global__ void __launch_bounds__(kThreads) commit_kernel(const __grid_constant__ Table table) {
  commit_tile(table, blockIdx.x, threadIdx.x);
}

template <typename Table>
cudaError_t encode_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tiles);
  const FrameCode& code = table.traits.code;
  const bool known = visit_floating(type, [&]<typename From>() {
    if (is_half(code.format)) {
      encode_halves_kernel<From><<<blocks, kThreads, 0, stream>>>(table);
      return;
    }
    const std::size_t shared = encoded_tile(code) * sizeof(float);
    if (code.format == FrameFormat::kOnebit) {
      encode_signs_kernel<From><<<blocks, kThreads, shared, stream>>>(table);
    } else {
      encode_multiples_kernel<From><<<blocks, kThreads, shared, stream>>>(table);
    }
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

template <typename Table>
cudaError_t decode_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  const bool known = visit_floating(type, [&]<typename To>() {
    decode_kernel<To><<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(table);
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

template <typename Table>
cudaError_t scatter_any(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  const bool known = visit_floating(type, [&]<typename To>() {
    scatter_kernel<To><<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(table);
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

template <typename Table>
cudaError_t commit_any(const Table& table, std::size_t tiles, cudaStream_t stream) {
  commit_kernel<<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_encode(const SmallEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return encode_any(table, type, tiles, stream);
}

cudaError_t launch_encode(const LargeEncodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return encode_any(table, type, tiles, stream);
}

cudaError_t launch_decode(const SmallDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return decode_any(table, type, tiles, stream);
}

cudaError_t launch_decode(const LargeDecodeTable& table, DType type, std::size_t tiles,
                          cudaStream_t stream) {
  return decode_any(table, type, tiles, stream);
}

cudaError_t launch_scatter(const SmallScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream) {
  return scatter_any(table, type, tiles, stream);
}

cudaError_t launch_scatter(const LargeScatterTable& table, DType type, std::size_t tiles,
                           cudaStream_t stream) {
  return scatter_any(table, type, tiles, stream);
}

cudaError_t launch_commit(const SmallCommitTable& table, std::size_t tiles, cudaStream_t stream) {
  return commit_any(table, tiles, stream);
}

cudaError_t launch_commit(const LargeCommitTable& table, std::size_t tiles, cudaStream_t stream) {
  return commit_any(table, tiles, stream);
}

}  // namespace ronde::cuda
