// The kernels of compression: codecs.h and sign.h say what each thread does.
#include "backends/cuda/codecs.h"
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

/// Launches what `launch.template operator()<Element>()` launches for a floating type.
template <typename Launch>
cudaError_t launch_for(DType type, const Launch& launch) {
  cudaError_t code = cudaErrorNotSupported;
  visit_floating(type, [&]<typename Element>() { code = launch.template operator()<Element>(); });
  return code;
}

}  // namespace

cudaError_t launch_encode(const EncodeWork& work, cudaStream_t stream) {
  const EncodeTraits traits{work.code, static_cast<float>(work.factor),
                            static_cast<unsigned>(work.added_frames), work.added_stride};
  return launch_tables<SmallEncodeTable, LargeEncodeTable>(
      work.runs, traits, encoded_tile(work.code), [&](const auto& table, std::size_t tiles) {
        return launch_for(work.from,
                          [&]<typename From>() { return encode<From>(table, tiles, stream); });
      });
}

cudaError_t launch_decode(const DecodeWork& work, cudaStream_t stream) {
  return launch_tables<SmallDecodeTable, LargeDecodeTable>(
      work.runs, {work.code}, decoded_tile(work.code), [&](const auto& table, std::size_t tiles) {
        return launch_for(work.to, [&]<typename To>() {
          return launch<DecodeKernel<To>>({.blocks = tiles}, stream, table);
        });
      });
}

cudaError_t launch_scatter(const ScatterWork& work, cudaStream_t stream) {
  return launch_tables<SmallScatterTable, LargeScatterTable>(
      work.runs, {work.adds}, kScatterTile, [&](const auto& table, std::size_t tiles) {
        return launch_for(work.to, [&]<typename To>() {
          return launch<ScatterKernel<To>>({.blocks = tiles}, stream, table);
        });
      });
}

cudaError_t launch_commit(std::span<const CommitRun> runs, cudaStream_t stream) {
  return launch_tables<SmallCommitTable, LargeCommitTable>(
      runs, {}, kTileElements, [&](const auto& table, std::size_t tiles) {
        return launch<CommitKernel>({.blocks = tiles}, stream, table);
      });
}

}  // namespace ronde::cuda
