// onebit's kernels run block by block and thread by thread on the CPU, with the phases that all
// threads of a block end before one begins the next.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cuda/sign.h"

namespace ronde::test {

inline void encode_signs_on_host(const cuda::EncodeWork& work) {
  using namespace cuda;
  for (std::size_t index = 0; index < tiles_of(work.count, work.block); ++index) {
    const BlockOf block(work, index);
    std::array<LaneSums, kSignLanes> lanes;
    std::array<SignMeans, kSignLanes> means;
    for (unsigned lane = 0; lane < kSignLanes; ++lane) lanes[lane] = lane_sums(work, index, lane);
    for (SignMeans& mean : means) mean = sign_means(work, index, lanes.data());
    for (std::size_t first = 0; first < block.count; first += kSignLanes) {
      std::uint32_t signs = 0;
      for (unsigned lane = 0; lane < kSignLanes; ++lane) {
        signs |= sign_at(work, block, first + lane, means[lane]) ? 1U << lane : 0U;
      }
      for (unsigned lane = 0; lane < kSignLanes; ++lane) write_signs(block, first, signs, lane);
    }
    for (unsigned lane = 0; lane < kSignLanes; ++lane) write_means(block, means[lane], lane);
  }
}

inline void decode_signs_on_host(const cuda::DecodeWork& work) {
  for (std::size_t index = 0; index < cuda::tiles_of(work.count, work.block); ++index) {
    for (unsigned lane = 0; lane < cuda::kSignLanes; ++lane) decode_signs(work, index, lane);
  }
}

}  // namespace ronde::test
