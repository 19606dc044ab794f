#include "ops/memory/fusion_buffer.h"

#include <algorithm>
#include <numeric>

namespace ronde {

namespace {

constexpr std::size_t kTensorAlignment = 64;

// How the flat input of a kind is laid out.
BufferLayout input_layout(const Work& work, int rank) {
  const BufferTraits& input = traits_of(work.kind).input;
  return input.root_only && rank != work.root ? BufferLayout::kNone : input.layout;
}

// How the flat output of a kind is laid out; a root that copies its input does so by itself.
BufferLayout output_layout(const Work& work, int rank) {
  const CollectiveTraits& traits = traits_of(work.kind);
  const bool root = rank == work.root;
  const bool none = root ? traits.root_copies() : traits.output.root_only;
  return none ? BufferLayout::kNone : traits.output.layout;
}

std::size_t sum_of(std::span<const std::size_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

// A run of bytes of one segment.
struct Piece {
  const Segment& segment;
  std::size_t begin;
  std::size_t bytes;
};

// Calls visit(Piece) for the pieces of all segments rank by rank.
template <typename Visit>
void for_parts(const Work& work, std::size_t size, Visit visit) {
  std::vector<std::size_t> begins(work.segments.size(), 0);
  for (std::size_t rank = 0; rank < size; ++rank) {
    for (std::size_t s = 0; s < work.segments.size(); ++s) {
      const std::size_t bytes = work.chunk_bytes[s * size + rank];
      visit(Piece{work.segments[s], begins[s], bytes});
      begins[s] += bytes;
    }
  }
}

// Calls visit(Piece) in the order of the flat buffer.
template <typename Visit>
void for_pieces(const Work& work, BufferLayout layout, std::size_t rank, std::size_t size,
                Visit visit) {
  if (layout == BufferLayout::kNone) return;
  if (layout == BufferLayout::kChunks) return for_parts(work, size, visit);
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    std::size_t bytes = work.segments[s].bytes;
    if (layout == BufferLayout::kOwnChunk) bytes = work.chunk_bytes[s * size + rank];
    if (layout == BufferLayout::kSends) bytes = sum_of(work.send_bytes);
    if (layout == BufferLayout::kReceives) bytes = sum_of(work.recv_bytes);
    visit(Piece{work.segments[s], 0, bytes});
  }
}

// The flat input, or output, of the work.
struct Side {
  BufferLayout layout = BufferLayout::kNone;
  std::size_t bytes = 0;
  bool flat = true;  // one segment with its address, or nothing at all
};

template <typename Address>
Side side_of(const Work& work, BufferLayout layout, std::size_t rank, std::size_t size,
             Address has_address) {
  Side side{layout, 0, work.segments.size() <= 1};
  for_pieces(work, layout, rank, size, [&](const Piece& piece) {
    side.bytes += piece.bytes;
    if (piece.bytes != 0 && !has_address(piece.segment)) side.flat = false;
  });
  return side;
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

SideBytes side_bytes(const Work& work, int rank, int size) {
  const auto sum = [&](BufferLayout layout) {
    std::size_t bytes = 0;
    for_pieces(work, layout, static_cast<std::size_t>(rank), static_cast<std::size_t>(size),
               [&](const Piece& piece) { bytes += piece.bytes; });
    return bytes;
  };
  return {sum(input_layout(work, rank)), sum(output_layout(work, rank))};
}

Work work_of(const FlatWork& flat, const Segment& segment, const Work& whole) {
  return {.kind = whole.kind,
          .reduction = flat.reduction,
          .root = flat.root,
          .segments = {&segment, 1},
          .chunk_bytes = flat.chunk_bytes,
          .send_bytes = flat.send_bytes,
          .recv_bytes = flat.recv_bytes,
          .bytes = whole.bytes};
}

FusionBuffer::FusionBuffer(CopyEngine& copies, int rank, int size)
    : copies_(copies), rank_(rank), size_(size), memory_(copies) {}

FlatWork FusionBuffer::flatten(const Work& work, const ReduceKernels& kernels,
                               const AbortToken& abort) {
  const auto rank = static_cast<std::size_t>(rank_);
  const auto size = static_cast<std::size_t>(size_);
  FlatWork flat{.kernels = kernels,
                .abort = abort,
                .reduction = work.reduction,
                .root = work.root,
                .bytes = total_bytes(work),
                .chunk_bytes = work.chunk_bytes,
                .send_bytes = work.send_bytes,
                .recv_bytes = work.recv_bytes};
  const Side in = side_of(work, input_layout(work, rank_), rank, size,
                          [](const Segment& segment) { return segment.in != nullptr; });
  const Side out = side_of(work, output_layout(work, rank_), rank, size,
                           [](const Segment& segment) { return segment.out != nullptr; });
  packed_ = !in.flat || !out.flat;
  if (!packed_) {
    if (work.segments.empty()) return flat;
    flat.in = work.segments[0].in;
    flat.out = work.segments[0].out;
    return flat;
  }
  // Inputs and outputs of the same layout share their place: the work is done in place.
  const std::size_t out_begin = in.layout == out.layout ? 0 : aligned(in.bytes);
  std::byte* buffer = memory_.at_least(out_begin + std::max(in.bytes, out.bytes));
  flat.in = buffer;
  flat.out = flat_out_ = buffer + out_begin;
  for_pieces(work, in.layout, rank, size, [&](const Piece& piece) {
    const std::byte* from = piece.segment.in;
    copies_.copy(buffer, from == nullptr ? nullptr : from + piece.begin, piece.bytes);
    buffer += piece.bytes;
  });
  if (!work.chunk_bytes.empty()) {
    part_bytes_.assign(size, 0);
    for (std::size_t i = 0; i < work.chunk_bytes.size(); ++i) {
      part_bytes_[i % size] += work.chunk_bytes[i];
    }
    flat.chunk_bytes = part_bytes_;
  }
  return flat;
}

void FusionBuffer::copy_at_root(const Work& work) {
  for (const Segment& segment : work.segments) {
    if (segment.in == nullptr || segment.out == nullptr) continue;
    copies_.copy(segment.out, segment.in, segment.bytes);
  }
}

void FusionBuffer::unflatten(const Work& work) {
  if (traits_of(work.kind).root_copies() && rank_ == work.root) return copy_at_root(work);
  if (!packed_) return;
  const std::byte* flat = flat_out_;
  for_pieces(work, output_layout(work, rank_), static_cast<std::size_t>(rank_),
             static_cast<std::size_t>(size_), [&](const Piece& piece) {
               if (piece.segment.out != nullptr) {
                 copies_.copy(piece.segment.out + piece.begin, flat, piece.bytes);
               }
               flat += piece.bytes;
             });
}

}  // namespace ronde
