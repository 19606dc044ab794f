// The kernels of compression: codecs.h, sign.h and scatter.h say what each thread does.
#include "backends/cuda/kernels.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/sign.h"

namespace ronde::cuda {
namespace {

template <typename From>
struct EncodeHalvesKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { encode_halves<From>(table, block.index(), thread); });
  }
};

/// int8 and int4.
template <typename From>
struct EncodeMultiplesKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    float* const values = block.shared_floats();
    PerThread<std::uint32_t> magnitudes;
    block.each([&](unsigned thread) {
      magnitudes[thread] = gather_block<From>(table, block.index(), thread, values);
    });
    const std::uint32_t largest = block.largest(magnitudes);
    block.each(
        [&](unsigned thread) { quantise_block(table, block.index(), thread, values, largest); });
  }
};

template <typename From>
struct EncodeSignsKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    float* const values = block.shared_floats();
    RONDE_SHARED LaneSums lanes[kThreads];
    PerThread<SignBlock> blocks;
    block.each([&](unsigned thread) { gather_tile<From>(table, block.index(), thread, values); });
    block.each([&](unsigned thread) {
      blocks[thread] = sign_block(table, block.index(), thread / kSignLanes, values);
      lanes[thread] = lane_sums(blocks[thread], thread % kSignLanes);
    });
    block.template each_group<kSignLanes>([&](const Group<kSignLanes>& group) {
      const unsigned first_thread = group.index() * kSignLanes;
      write_block(group, blocks[first_thread], lanes + first_thread);
    });
  }

 private:
  RONDE_DEVICE static void write_block(const Group<kSignLanes>& group, const SignBlock& block,
                                       const LaneSums* lanes) {
    const SignMeans means = sign_means(block, lanes);
    for (std::size_t first = 0; first < block.count; first += kSignLanes) {
      const std::uint32_t signs =
          group.ballot([&](unsigned lane) { return sign_at(block, first + lane, means); });
      group.each([&](unsigned lane) { write_signs(block, first, signs, lane); });
    }
    group.each([&](unsigned lane) { write_means(block, means, lane); });
  }
};

template <typename To>
struct DecodeKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { decode_tile<To>(table, block.index(), thread); });
  }
};

template <typename To>
struct ScatterKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { scatter_tile<To>(table, block.index(), thread); });
  }
};

struct CommitKernel {
  template <typename Table>
  RONDE_DEVICE static void run(Block& block, const Table& table) {
    block.each([&](unsigned thread) { commit_tile(table, block.index(), thread); });
  }
};

template <typename From, typename Table>
cudaError_t encode(const Table& table, std::size_t tiles, cudaStream_t stream) {
  const FrameCode& code = table.traits.code;
  if (is_half(code.format)) {
    return launch<EncodeHalvesKernel<From>>({.blocks = tiles}, stream, table);
  }
  const Grid grid{.blocks = tiles, .shared_bytes = encoded_tile(code) * sizeof(float)};
  return code.format == FrameFormat::kOnebit
             ? launch<EncodeSignsKernel<From>>(grid, stream, table)
             : launch<EncodeMultiplesKernel<From>>(grid, stream, table);
}

}  // namespace

template <typename Table>
cudaError_t launch_encode(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  cudaError_t code = cudaErrorNotSupported;
  visit_floating(type, [&]<typename From>() { code = encode<From>(table, tiles, stream); });
  return code;
}

template <typename Table>
cudaError_t launch_decode(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  cudaError_t code = cudaErrorNotSupported;
  visit_floating(type, [&]<typename To>() {
    code = launch<DecodeKernel<To>>({.blocks = tiles}, stream, table);
  });
  return code;
}

template <typename Table>
cudaError_t launch_scatter(const Table& table, DType type, std::size_t tiles, cudaStream_t stream) {
  cudaError_t code = cudaErrorNotSupported;
  visit_floating(type, [&]<typename To>() {
    code = launch<ScatterKernel<To>>({.blocks = tiles}, stream, table);
  });
  return code;
}

template <typename Table>
cudaError_t launch_commit(const Table& table, std::size_t tiles, cudaStream_t stream) {
  return launch<CommitKernel>({.blocks = tiles}, stream, table);
}

template cudaError_t launch_encode(const SmallEncodeTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_encode(const LargeEncodeTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_decode(const SmallDecodeTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_decode(const LargeDecodeTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_scatter(const SmallScatterTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_scatter(const LargeScatterTable&, DType, std::size_t, cudaStream_t);
template cudaError_t launch_commit(const SmallCommitTable&, std::size_t, cudaStream_t);
template cudaError_t launch_commit(const LargeCommitTable&, std::size_t, cudaStream_t);

}  // namespace ronde::cuda
