#include "ops/compression/compressed_allreduce.h"

#include <algorithm>
#include <array>

#include "ops/compression/codecs/quantised_allreduce.h"
#include "ops/compression/low_rank/allreduce.h"
#include "ops/compression/metered.h"
#include "ops/compression/registry.h"
#include "ops/compression/sparse/allreduce.h"

namespace ronde {
namespace {

Status run_scheme(Transport& transport, const CompressedAllreduce& work, Scratch& scratch) {
  const Payload payload = codec_row(work.compression.scheme().spec.kind).payload;
  if (payload == Payload::kList) return sparse_allreduce(transport, work, scratch);
  if (payload == Payload::kFactors) return low_rank_allreduce(transport, work, scratch);
  return quantised_allreduce(transport, work, scratch);
}

}  // namespace

std::vector<CompressedPiece> pieces_of(const Work& work) {
  std::vector<CompressedPiece> pieces;
  pieces.reserve(work.segments.size());
  for (std::size_t tensor = 0; tensor < work.segments.size(); ++tensor) {
    const Segment& segment = work.segments[tensor];
    const std::size_t elements = segment.bytes / size_of(work.reduction.dtype);
    pieces.push_back({segment.in, segment.out, elements, tensor, 0});
  }
  return pieces;
}

std::size_t count_elements(std::span<const CompressedPiece> pieces) noexcept {
  std::size_t count = 0;
  for (const CompressedPiece& piece : pieces) count += piece.count;
  return count;
}

void load_piece(const CompressedAllreduce& work, const CompressedPiece& piece, std::size_t begin,
                std::span<float> values, std::byte* wide) {
  if (piece.in == nullptr) return std::fill(values.begin(), values.end(), 0.0F);
  const void* from = piece.in + begin * size_of(work.in_dtype);
  if (work.in_dtype != DType::kFloat32) {
    work.kernels.cast(work.in_dtype, from, DType::kFloat32, wide, values.size());
    from = wide;
  }
  const Reduction scale{DType::kFloat32, ReduceOp::kSum, {work.factor, 1.0}};
  work.kernels.reduce(scale, std::array{from}, values.data(), values.size());
}

Status compressed_allreduce(Transport& transport, const CompressedAllreduce& work,
                            Scratch& scratch) {
  return run_metered(transport, work.compression.facts(),
                     [&](Transport& metered) { return run_scheme(metered, work, scratch); });
}

}  // namespace ronde
