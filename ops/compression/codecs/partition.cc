#include "ops/compression/codecs/partition.h"

#include <algorithm>
#include <numeric>

#include "ops/transfer.h"

namespace ronde {
namespace {

constexpr std::size_t kCut = std::size_t{1} << 18;  // elements

class Partition {
 public:
  Partition(const CompressedWork& compression, std::size_t ranks, std::size_t slice_elements)
      : compression_(compression), ranks_(ranks), slice_elements_(slice_elements) {}

  void add_piece(std::size_t index, const CompressedPiece& piece) {
    const std::size_t turn = compression_.tensors()[piece.tensor].turn;
    for (std::size_t begin = 0; begin < piece.count; begin += kCut) {
      add_cut({index, begin, std::min(kCut, piece.count - begin)}, turn);
    }
  }
  std::vector<Slice> take() { return std::move(slices_); }

 private:
  void add_cut(const OwnedRun& cut, std::size_t turn);
  Slice& open_slice();

  const CompressedWork& compression_;
  const std::size_t ranks_;
  const std::size_t slice_elements_;
  std::vector<Slice> slices_;
};

Slice& Partition::open_slice() {
  if (!slices_.empty() && slices_.back().count < slice_elements_) return slices_.back();
  const std::size_t at = slices_.empty() ? 0 : slices_.back().begin + slices_.back().count;
  slices_.emplace_back();
  slices_.back().begin = at;
  slices_.back().runs.resize(ranks_);
  slices_.back().bytes.resize(ranks_);
  return slices_.back();
}

void Partition::add_cut(const OwnedRun& cut, std::size_t turn) {
  Slice& slice = open_slice();
  const Codec& codec = compression_.codec();
  const std::size_t block = codec.block();
  const std::size_t blocks = (cut.count + block - 1) / block;
  for (std::size_t part = 0; part < ranks_; ++part) {
    const Chunk run = even_chunk(blocks, ranks_, part);
    if (run.count == 0) continue;
    const std::size_t first = run.begin * block;
    const std::size_t length = std::min(run.count * block, cut.count - first);
    const std::size_t owner = (part + turn) % ranks_;
    slice.runs[owner].push_back({cut.piece, cut.begin + first, length, slice.count + first});
    slice.bytes[owner] += codec.encoded_bytes(length);
  }
  slice.count += cut.count;
}

/// The runs of each owner, in order: `most` elements, but a block at least.
std::vector<std::vector<OwnedRun>> runs_by_owner(std::span<const CompressedPiece> pieces,
                                                 std::span<const std::size_t> owners,
                                                 std::size_t block, std::size_t ranks,
                                                 std::size_t most) {
  std::vector<std::vector<OwnedRun>> runs(ranks);
  const std::size_t cut = std::max<std::size_t>(1, std::min(kCut, most) / block) * block;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    const std::size_t count = pieces[index].count;
    for (std::size_t begin = 0; begin < count; begin += cut) {
      runs[owners[index]].push_back({index, begin, std::min(cut, count - begin)});
    }
  }
  return runs;
}

/// Moves the next runs of an owner to a slice: `share` elements at most, but a run at least.
void deal(std::span<const OwnedRun>& left, std::size_t owner, std::size_t share, const Codec& codec,
          Slice& slice) {
  for (std::size_t taken = 0; !left.empty(); left = left.subspan(1)) {
    OwnedRun run = left.front();
    if (taken > 0 && taken + run.count > share) return;
    run.at = slice.count;
    slice.count += run.count;
    slice.bytes[owner] += codec.encoded_bytes(run.count);
    slice.runs[owner].push_back(run);
    taken += run.count;
  }
}

}  // namespace

std::size_t Slice::all_bytes() const noexcept {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

std::vector<Slice> partition(std::span<const CompressedPiece> pieces,
                             const CompressedWork& compression, std::size_t ranks,
                             std::size_t slice_elements) {
  Partition made(compression, ranks, slice_elements);
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    made.add_piece(index, pieces[index]);
  }
  return made.take();
}

std::vector<Slice> partition_by_owner(std::span<const CompressedPiece> pieces,
                                      std::span<const std::size_t> owners, const Codec& codec,
                                      std::size_t ranks, std::size_t slice_elements) {
  const std::size_t share = slice_elements / ranks;
  const auto runs = runs_by_owner(pieces, owners, codec.block(), ranks, share);
  std::vector<std::span<const OwnedRun>> left(runs.begin(), runs.end());
  std::vector<Slice> slices;
  for (std::size_t begin = 0;; begin += slices.back().count) {
    Slice slice;
    slice.begin = begin;
    slice.runs.resize(ranks);
    slice.bytes.resize(ranks);
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      deal(left[owner], owner, share, codec, slice);
    }
    if (slice.count == 0) return slices;
    slices.push_back(std::move(slice));
  }
}

}  // namespace ronde
