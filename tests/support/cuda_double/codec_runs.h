// The kernels of compression on the host: every thread of every block, one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/codecs.h"
#include "backends/cuda/scatter.h"
#include "backends/cuda/sign.h"

namespace ronde::test::cuda_double {

/// Calls body(thread) for each thread of a block.
template <typename Body>
void for_threads(const Body& body) {
  for (unsigned thread = 0; thread < cuda::kThreads; ++thread) body(thread);
}

/// A tile of onebit: the phases that all threads of the block end before one begins the next.
template <typename From, typename Table>
void encode_signs(const Table& table, std::size_t tile) {
  using namespace cuda;
  std::vector<float> shared(encoded_tile(table.traits.code));
  for_threads([&](unsigned thread) { gather_tile<From>(table, tile, thread, shared.data()); });
  for (unsigned group = 0; group < kSignGroups; ++group) {
    const SignBlock block = sign_block(table, tile, group, shared.data());
    LaneSums lanes[kSignLanes];
    for (unsigned lane = 0; lane < kSignLanes; ++lane) lanes[lane] = lane_sums(block, lane);
    const SignMeans means = sign_means(block, lanes);
    for (std::size_t first = 0; first < block.count; first += kSignLanes) {
      std::uint32_t signs = 0;
      for (unsigned lane = 0; lane < kSignLanes; ++lane) {
        signs |= sign_at(block, first + lane, means) ? 1U << lane : 0U;
      }
      for (unsigned lane = 0; lane < kSignLanes; ++lane) write_signs(block, first, signs, lane);
    }
    for (unsigned lane = 0; lane < kSignLanes; ++lane) write_means(block, means, lane);
  }
}

/// Between the two parts of encoding int8 and int4 all threads of a block meet.
template <typename From, typename Table>
void encode_tile(const Table& table, std::size_t tile) {
  if (cuda::is_half(table.traits.code.format)) {
    return for_threads([&](unsigned thread) { cuda::encode_halves<From>(table, tile, thread); });
  }
  if (table.traits.code.format == FrameFormat::kOnebit) return encode_signs<From>(table, tile);
  std::vector<float> shared(table.traits.code.block);
  std::uint32_t largest = 0;
  for_threads([&](unsigned thread) {
    largest = std::max(largest, cuda::gather_block<From>(table, tile, thread, shared.data()));
  });
  for_threads(
      [&](unsigned thread) { cuda::quantise_block(table, tile, thread, shared.data(), largest); });
}

template <typename Table>
void run_encode(const Table& table, DType type, std::size_t tiles) {
  cuda::visit_floating(type, [&]<typename From>() {
    for (std::size_t tile = 0; tile < tiles; ++tile) encode_tile<From>(table, tile);
  });
}

template <typename Table>
void run_decode(const Table& table, DType type, std::size_t tiles) {
  cuda::visit_floating(type, [&]<typename To>() {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      for_threads([&](unsigned thread) { cuda::decode_tile<To>(table, tile, thread); });
    }
  });
}

template <typename Table>
void run_scatter(const Table& table, DType type, std::size_t tiles) {
  cuda::visit_floating(type, [&]<typename To>() {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      for_threads([&](unsigned thread) { cuda::scatter_tile<To>(table, tile, thread); });
    }
  });
}

template <typename Table>
void run_commit(const Table& table, std::size_t tiles) {
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    for_threads([&](unsigned thread) { cuda::commit_tile(table, tile, thread); });
  }
}

}  // namespace ronde::test::cuda_double
