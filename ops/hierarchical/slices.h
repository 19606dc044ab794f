// The schedule of allreduces in two levels: slices of a tensor are reduced inside hosts, between
// hosts and gathered inside, several of them at a time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/status.h"
#include "ops/transfer.h"

namespace ronde {

/// Slices that are under way at the same time.
inline constexpr std::size_t kInFlight = 2;

/// The number of slices for `bytes`, most of which have about `slice_bytes`.
constexpr std::size_t slice_count(std::size_t bytes, std::size_t slice_bytes) noexcept {
  const std::size_t whole = (bytes + slice_bytes / 2) / slice_bytes;
  return whole < 2 ? 1 : whole + 1;
}

/// Slice `index` of `count` elements. The first and the last of several have a quarter of the
/// others: nothing is between hosts while the first is reduced and while the last is gathered.
constexpr Chunk slice_chunk(std::size_t count, std::size_t slices, std::size_t index) noexcept {
  constexpr std::size_t kQuarters = 4;
  if (slices < 3) return even_chunk(count, slices, index);
  const std::size_t quarters = kQuarters * (slices - 2) + 2;
  const auto begin_of = [&](std::size_t slice) {
    const std::size_t before = slice == 0 ? 0 : kQuarters * (slice - 1) + 1;
    return even_chunk(count, quarters, std::min(before, quarters)).begin;
  };
  const std::size_t begin = begin_of(index);
  return {begin, begin_of(index + 1) - begin};
}

/// The elements of the longest slice.
constexpr std::size_t longest_slice(std::size_t count, std::size_t slices) noexcept {
  const std::size_t first = slice_chunk(count, slices, 0).count;
  return slices < 2 ? first : std::max(first, slice_chunk(count, slices, 1).count);
}

/// Takes all slices through three steps, given the number of a slice: while one is between hosts,
/// the next is reduced inside. reduce_inside() reduces and scatters inside the host; what follows
/// may begin in another thread. reduce_between() returns when this rank's chunk has been reduced
/// between hosts. gather_inside() gathers the slice. The order is the same on all ranks. Errors:
/// the first of a step.
template <typename Steps>
Status run_slices(std::size_t slices, Steps& steps) {
  for (std::size_t i = 0; i < std::min(slices, kInFlight); ++i) {
    RONDE_RETURN_IF_ERROR(steps.reduce_inside(i));
  }
  for (std::size_t i = 0; i < slices; ++i) {
    RONDE_RETURN_IF_ERROR(steps.reduce_between(i));
    RONDE_RETURN_IF_ERROR(steps.gather_inside(i));
    if (i + kInFlight < slices) RONDE_RETURN_IF_ERROR(steps.reduce_inside(i + kInFlight));
  }
  return {};
}

}  // namespace ronde
