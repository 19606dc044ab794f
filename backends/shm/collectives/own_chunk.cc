#include "backends/shm/collectives/own_chunk.h"

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/reach.h"

namespace ronde::shm {
namespace {

/// Peers' inputs are copied by blocks of this size, which stay in the L2 cache. Smaller ones cost
/// more system calls.
constexpr std::size_t kStagedBlockBytes = std::size_t{128} << 10;
constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
/// Blocks that are read in place stay in the L1 cache until they are written to all outputs.
constexpr std::size_t kMappedBlockBytes = std::size_t{16} << 10;

}  // namespace

OwnChunk::OwnChunk(const Context& with, const Reduction& what, const Places& places,
                   const Share& share)
    : with_(with),
      what_(what),
      places_(places),
      ranks_(static_cast<std::size_t>(with.steps.ranks())),
      me_(static_cast<std::size_t>(with.steps.rank())),
      streaming_(share.streaming),
      own_(share.own),
      bytes_(share.bytes) {
  for (std::size_t r = 0; r < ranks_; ++r) {
    pulls_ = pulls_ || (r != me_ && !places.of(r).in_mapped);
  }
  const std::size_t limit =
      pulls_ ? std::clamp(kStagingBytes / ranks_ / kPage * kPage, kPage, kStagedBlockBytes)
             : kMappedBlockBytes;
  block_ = std::min(std::max(bytes_, kAlign), limit);
  if (pulls_) with.scratch.staging.resize(ranks_ * stride() + kAlign);
}

std::byte* OwnChunk::staged(std::size_t rank) const {
  return with_.scratch.staging.data() + shift_ + rank * stride();
}

void OwnChunk::align() {
  const auto place = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const std::uintptr_t base = place(with_.scratch.staging.data());
  Cursor next = own_;
  next.take(1, [&](const Segment& piece) { shift_ = (place(piece.out) - base) % kAlign; });
}

Status OwnChunk::stage(std::size_t bytes) {
  if (pulls_) align();
  for (std::size_t r = 0; pulls_ && r < ranks_; ++r) {
    if (r != me_ && !places_.of(r).in_mapped) RONDE_RETURN_IF_ERROR(stage_from(r, bytes));
  }
  return {};
}

Status OwnChunk::stage_from(std::size_t rank, std::size_t bytes) {
  PeerCopy pull(PeerCopy::Direction::kPull, with_.reach.pids[rank], with_.stop);
  Cursor cursor = own_;
  std::byte* to = staged(rank);
  cursor.take(bytes, [&](const Segment& piece) {
    pull.add(places_.of(rank).segments[cursor.segment()].in + cursor.within(), to, piece.bytes);
    to += piece.bytes;
  });
  return pull.finish();
}

const std::byte* OwnChunk::input(std::size_t rank, const Segment& piece, std::size_t offset) const {
  if (rank == me_) return piece.in;
  const Place& place = places_.of(rank);
  if (!place.in_mapped) return staged(rank) + offset;
  return place.segments[own_.segment()].in + own_.within();
}

void OwnChunk::reduce_piece(const Segment& piece, std::size_t offset) {
  if (piece.out == nullptr) return;
  auto& inputs = with_.scratch.inputs;
  for (std::size_t r = 0; r < ranks_; ++r) inputs[r] = input(r, piece, offset);
  const std::size_t count = piece.bytes / size_of(what_.dtype);
  if (with_.watch != nullptr && piece.in == piece.out) watch_input(me_, piece);
  if (streaming_ && piece.in != piece.out) {
    with_.kernels.reduce_streaming(what_, inputs, piece.out, count);
  } else {
    with_.kernels.reduce(what_, inputs, piece.out, count);
  }
  if (with_.watch != nullptr) watch_piece(piece);
}

void OwnChunk::watch_input(std::size_t rank, const Segment& piece) {
  with_.watch->look_at_input(static_cast<int>(rank), own_.segment(), own_.within(),
                             with_.scratch.inputs[rank], piece.bytes);
}

void OwnChunk::watch_piece(const Segment& piece) {
  if (!with_.watch->look_at_result(own_.segment(), own_.within(), piece.out, piece.bytes)) return;
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (r != me_ || piece.in != piece.out) watch_input(r, piece);
  }
}

}  // namespace ronde::shm
