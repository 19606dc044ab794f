#include "ops/communicator/compressed.h"

#include <fmt/format.h>

#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/compression/compressed_allreduce.h"

namespace ronde {
namespace {

/// The pieces of the bundle's tensors that the segments of an allreduce are.
std::vector<CompressedPiece> placed_pieces(const Work& work) {
  std::vector<CompressedPiece> pieces = pieces_of(work);
  for (std::size_t i = 0; i < work.origins.size(); ++i) {
    pieces[i].tensor = work.origins[i].tensor;
    pieces[i].begin = work.origins[i].begin;
  }
  return pieces;
}

/// The chunks of segments as pieces, and the ranks that own them.
struct OwnedPieces {
  std::vector<CompressedPiece> pieces;
  std::vector<std::size_t> owners;
};

OwnedPieces owned_pieces(const Work& work, std::size_t me, std::size_t ranks) {
  const std::size_t element = size_of(work.reduction.dtype);
  const bool reduces = traits_of(work.kind).reduces;
  OwnedPieces made;
  for (std::size_t s = 0; s < work.segments.size(); ++s) {
    const Segment& segment = work.segments[s];
    const SegmentOrigin origin = work.origins.empty() ? SegmentOrigin{s, 0} : work.origins[s];
    std::size_t at = 0;
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      const std::size_t bytes = work.chunk_bytes[s * ranks + owner];
      CompressedPiece piece{
          .count = bytes / element, .tensor = origin.tensor, .begin = origin.begin + at / element};
      if (reduces) {
        if (segment.in != nullptr) piece.in = segment.in + at;
        if (owner == me) piece.out = segment.out;
      } else {
        if (owner == me) piece.in = segment.in;
        if (segment.out != nullptr) piece.out = segment.out + at;
      }
      made.pieces.push_back(piece);
      made.owners.push_back(owner);
      at += bytes;
    }
  }
  return made;
}

/// Bytes of a rank's chunk of a segment, and of those before it.
Chunk chunk_of(const Work& work, std::size_t segment, std::size_t rank, std::size_t ranks) {
  const auto all = work.chunk_bytes.subspan(segment * ranks, ranks);
  return {
      std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0}),
      all[rank]};
}

}  // namespace

TransportCompressed::TransportCompressed(std::string name, Transport& transport,
                                         std::shared_ptr<const ReduceKernels> kernels)
    : CompressedCommunicator(
          {.name = std::move(name),
           .supports = SupportTable::of([](Collective kind, DType dtype, ReduceOp) {
             return traits_of(kind).codecs != Codecs::kNone && is_floating(dtype);
           }),
           .native_first = true,
           .lossy = true}),
      transport_(transport),
      kernels_(std::move(kernels)) {}

Status TransportCompressed::run(const Work& work, DeviceStream /*stream*/,
                                const AbortToken& abort) {
  const Phase whole(work.phases, "COMPRESS AND EXCHANGE");
  try {
    switch (work.kind) {
      case Collective::kReduceScatter:
        return reduce_scatter(work, abort);
      case Collective::kAllgather:
        return allgather(work, abort);
      default:
        return move(work, abort);
    }
  } catch (const std::bad_alloc&) {  // other ranks wait for this one: the group is broken
    return {Code::kAborted, fmt::format("out of memory in compressed {} of {} bytes",
                                        to_string(work.kind), total_bytes(work))};
  }
}

/// In place the result begins where other chunks are still to be read.
Status TransportCompressed::reduce_scatter(const Work& work, const AbortToken& abort) {
  const auto me = static_cast<std::size_t>(transport_.rank());
  const auto ranks = static_cast<std::size_t>(transport_.size());
  std::vector<Segment> apart(work.segments.begin(), work.segments.end());
  std::size_t room = 0;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (apart[i].in == apart[i].out) room += chunk_of(work, i, me, ranks).count;
  }
  std::byte* at = room == 0 ? nullptr : aside_.block(0, room);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (room == 0 || apart[i].in != apart[i].out) continue;
    apart[i].out = at;
    at += chunk_of(work, i, me, ranks).count;
  }
  Work moved = work;
  moved.segments = apart;
  RONDE_RETURN_IF_ERROR(move(moved, abort));
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const std::size_t bytes = chunk_of(work, i, me, ranks).count;
    if (work.segments[i].out != nullptr) copy_bytes(work.segments[i].out, apart[i].out, bytes);
  }
  return {};
}

/// In place this rank's chunk first goes to where the result has it.
Status TransportCompressed::allgather(const Work& work, const AbortToken& abort) {
  const auto me = static_cast<std::size_t>(transport_.rank());
  std::vector<Segment> placed(work.segments.begin(), work.segments.end());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (placed[i].in != placed[i].out || placed[i].out == nullptr) continue;
    const Chunk own = chunk_of(work, i, me, static_cast<std::size_t>(transport_.size()));
    copy_bytes(placed[i].out + own.begin, placed[i].in, own.count);
    placed[i].in = placed[i].out + own.begin;
  }
  Work moved = work;
  moved.segments = placed;
  return move(moved, abort);
}

Status TransportCompressed::move(const Work& work, const AbortToken& abort) {
  const std::size_t index = begin_run();
  if (index >= left_.size()) left_.resize(index + 1);
  const bool whole = work.kind == Collective::kAllreduce;
  const OwnedPieces given = whole ? OwnedPieces{placed_pieces(work), {}}
                                  : owned_pieces(work, static_cast<std::size_t>(transport_.rank()),
                                                 static_cast<std::size_t>(transport_.size()));
  CompressedAllreduce call{.kernels = *kernels_,
                           .abort = abort,
                           .compression = bound(),
                           .pieces = given.pieces,
                           .in_dtype = work.reduction.dtype,
                           .out_dtype = work.reduction.dtype,
                           .owners = given.owners};
  if (traits_of(work.kind).reduces) {
    call.factor = work.reduction.scaling.pre * work.reduction.scaling.post;
  }
  const std::size_t kept = count_elements(given.pieces) * bound().kept_floats();
  if (kept > 0) {
    call.left = reinterpret_cast<float*>(left_[index].block(0, kept * sizeof(float)));
  }
  if (whole) return compressed_allreduce(transport_, call, scratch_);
  return work.kind == Collective::kReduceScatter
             ? quantised_reduce_scatter(transport_, call, scratch_)
             : quantised_allgather(transport_, call, scratch_);
}

}  // namespace ronde
