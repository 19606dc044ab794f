#include "ops/adasum/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/ports/phases.h"

namespace ronde {
namespace {

constexpr std::size_t kNumbersOfPair = sizeof(AdasumProducts) / sizeof(std::int64_t);

enum ScratchBlock : std::size_t { kReceived, kResults, kUnwanted };

// Products become integers by memcpy: with std::bit_cast, gcc 12 at -O2 gave wrong sums.

void append(const AdasumProducts& products, std::vector<std::int64_t>& numbers) {
  const std::size_t at = numbers.size();
  numbers.resize(at + kNumbersOfPair);
  std::memcpy(numbers.data() + at, &products, sizeof(products));
}

AdasumProducts products_at(std::span<const std::int64_t> numbers, std::size_t at) {
  AdasumProducts products;
  std::memcpy(static_cast<void*>(&products), numbers.data() + at, sizeof(products));
  return products;
}

/// The sum of all ranks' shares of the products at `at`, in ascending order of ranks.
AdasumProducts sum_of_shares(std::span<const std::int64_t> all, std::size_t at,
                             std::size_t numbers_of_rank) {
  AdasumProducts sum;
  for (; at < all.size(); at += numbers_of_rank) {
    const AdasumProducts share = products_at(all, at);
    sum.ab = sum.ab + share.ab;
    sum.aa = sum.aa + share.aa;
    sum.bb = sum.bb + share.bb;
  }
  return sum;
}

}  // namespace

AdasumCommunicator::AdasumCommunicator(Communicator& host,
                                       std::shared_ptr<const ReduceKernels> kernels, int rank,
                                       int size)
    : Communicator({.name = "adasum"}),
      host_(host),
      kernels_(std::move(kernels)),
      rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      exchange_(host, size),
      copies_(&host),
      packed_(copies_, rank, size) {}

Status AdasumCommunicator::run(const Work& work, DeviceStream /*stream*/, const AbortToken& abort) {
  try {
    return reduce(work, abort);
  } catch (const std::bad_alloc&) {  // other ranks wait for this one: the group is broken
    return {Code::kAborted, fmt::format("out of memory in {} of {} bytes", to_string(work.kind),
                                        total_bytes(work))};
  }
}

Status AdasumCommunicator::reduce(const Work& work, const AbortToken& abort) {
  divide(work);
  {
    const Phase phase(work.phases, "exchange of inputs");
    RONDE_RETURN_IF_ERROR(exchange(work, abort));
  }
  {
    const Phase phase(work.phases, "dot products");
    for (std::size_t level = 0; level < adasum_levels(size_); ++level) {
      RONDE_RETURN_IF_ERROR(combine_level(work, level, abort));
    }
  }
  {
    const Phase phase(work.phases, "combine");
    round_parts(work);
  }
  const Phase phase(work.phases, "allgather");
  return gather(work, abort);
}

/// Divides every tensor evenly among the ranks.
void AdasumCommunicator::divide(const Work& work) {
  const std::size_t element = size_of(work.reduction.dtype);
  chunk_bytes_.clear();
  parts_.resize(work.segments.size());
  std::byte* out =
      scratch_.block(kResults, total_bytes(work) / size_ + work.segments.size() * element);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t count = work.segments[i].bytes / element;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      chunk_bytes_.push_back(even_chunk(count, size_, rank).count * element);
    }
    parts_[i].count = chunk_bytes_[i * size_ + rank_] / element;
    parts_[i].out = out;
    parts_[i].inputs.clear();
    parts_[i].coefficients.assign(size_, DoubleDouble{1, 0});
    out += parts_[i].count * element;
  }
}

/// Brings all inputs of this rank's chunks here. Chunks are packed as for a reduce_scatter.
Status AdasumCommunicator::exchange(const Work& work, const AbortToken& abort) {
  std::vector<Segment> segments(work.segments.begin(), work.segments.end());
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i].out = parts_[i].out;
  Work chunks;
  chunks.kind = Collective::kReduceScatter;
  chunks.segments = segments;
  chunks.chunk_bytes = chunk_bytes_;
  const FlatWork flat = packed_.flatten(chunks, *kernels_, abort);
  if (flat.bytes == 0) return {};
  const std::size_t mine = flat.chunk_bytes[rank_];
  std::byte* const received = scratch_.block(kReceived, mine * size_);
  const std::vector<std::size_t> recv_bytes(size_, mine);
  const Segment segment{flat.in, received, flat.bytes};
  Work moved;
  moved.kind = Collective::kAlltoall;
  moved.reduction.dtype = DType::kUint8;
  moved.segments = {&segment, 1};
  moved.send_bytes = flat.chunk_bytes;
  moved.recv_bytes = recv_bytes;
  moved.bytes = flat.bytes * size_;
  RONDE_RETURN_IF_ERROR(host_.run(moved, kNoStream, abort).in_tensor({}));
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const std::byte* at = received + rank * mine;
    for (Part& part : parts_) {
      part.inputs.push_back(at);
      at += part.count * size_of(work.reduction.dtype);
    }
  }
  return {};
}

/// Combines the pairs of one level: of every tensor, with one exchange of dot products.
Status AdasumCommunicator::combine_level(const Work& work, std::size_t level,
                                         const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  const std::vector<AdasumPair> pairs = adasum_pairs(size_, level);
  shares_.clear();
  for (Part& part : parts_) {
    AdasumSlice slice = slice_of(work, part);
    for (const AdasumPair& pair : pairs) {
      append(slice.products(pair, part.coefficients), shares_);
    }
  }
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(shares_, abort));
  std::size_t at = 0;
  for (Part& part : parts_) {
    for (const AdasumPair& pair : pairs) {
      combine_pair(pair, sum_of_shares(all, at, shares_.size()), part.coefficients);
      at += kNumbersOfPair;
    }
  }
  return {};
}

/// Factors before and after are those of the result: Adasum of scaled inputs is scaled.
void AdasumCommunicator::round_parts(const Work& work) {
  const Scaling& scaling = work.reduction.scaling;
  const DoubleDouble factor = exact_product(scaling.pre, scaling.post);
  for (Part& part : parts_) {
    for (DoubleDouble& coefficient : part.coefficients) coefficient = coefficient * factor;
    slice_of(work, part).combine(part.coefficients, part.out);
  }
}

Status AdasumCommunicator::gather(const Work& work, const AbortToken& abort) {
  if (total_bytes(work) == 0) return {};
  std::size_t unwanted = 0;
  for (const Segment& segment : work.segments) {
    if (segment.out == nullptr) unwanted = std::max(unwanted, segment.bytes);
  }
  std::byte* const spare = scratch_.block(kUnwanted, unwanted);
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::byte* const out = work.segments[i].out;
    segments.push_back({parts_[i].out, out == nullptr ? spare : out, work.segments[i].bytes});
  }
  Work moved;
  moved.kind = Collective::kAllgather;
  moved.reduction.dtype = DType::kUint8;
  moved.segments = segments;
  moved.chunk_bytes = chunk_bytes_;
  moved.bytes = total_bytes(work);
  return host_.run(moved, kNoStream, abort).in_tensor({});
}

}  // namespace ronde
