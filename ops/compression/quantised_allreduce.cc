#include "ops/compression/quantised_allreduce.h"

#include <algorithm>
#include <vector>

#include "core/base/stopwatch.h"
#include "ops/transfer.h"

namespace ronde {
namespace {

constexpr std::size_t kCut = std::size_t{1} << 18;            // elements
constexpr std::size_t kSliceElements = std::size_t{1} << 20;  // cuts that travel together
constexpr std::size_t kInFlight = 3;

/// Elements of one piece that one rank owns.
struct Run {
  std::size_t piece = 0;
  std::size_t begin = 0;  // in the piece
  std::size_t count = 0;
  std::size_t at = 0;  // in the slice
};

/// Cuts that travel together: runs by owner, and where their frames lie.
struct Slice {
  std::vector<std::vector<Run>> runs;  // by rank
  std::vector<std::size_t> bytes;      // encoded, by rank
  std::size_t begin = 0;               // of its first element among those of all pieces
  std::size_t count = 0;
  // While under way.
  float* values = nullptr;
  std::vector<std::byte*> sent;      // to each owner
  std::vector<std::byte*> received;  // my part, from each rank
  std::vector<std::byte*> sums;      // each owner's
  std::vector<TransferId> parts_in, sums_in, out;
};

class ScatterReduce {
 public:
  ScatterReduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch)
      : transport_(transport),
        work_(work),
        codec_(work.compression.codec()),
        scratch_(scratch),
        ranks_(static_cast<std::size_t>(transport.size())),
        me_(static_cast<std::size_t>(transport.rank())) {
    for (std::size_t piece = 0; piece < work.pieces.size(); ++piece) cut(piece);
    lay_out();
  }

  Status run() {
    for (std::size_t i = 0; i < slices_.size() + kInFlight - 1; ++i) {
      if (i < slices_.size()) RONDE_RETURN_IF_ERROR(send_parts(slices_[i]));
      if (i >= 1 && i - 1 < slices_.size()) RONDE_RETURN_IF_ERROR(send_sum(slices_[i - 1]));
      if (i >= 2) RONDE_RETURN_IF_ERROR(finish(slices_[i - 2]));
    }
    return {};
  }

 private:
  void cut(std::size_t piece);
  void add_cut(std::size_t piece, std::size_t begin, std::size_t count);
  void lay_out();
  Status send_parts(Slice& slice);
  Status add_parts(const Slice& slice);
  Status send_sum(Slice& slice);
  Status finish(Slice& slice);
  void load(const Slice& slice, const Run& run);
  void encode(const Slice& slice, std::size_t owner, std::byte* frame);
  Status decode_out(const Slice& slice, std::size_t owner);
  Status wait(std::vector<TransferId>& ids);
  Status post_send(Slice& slice, std::size_t to, std::byte* frame, std::size_t bytes);
  Status post_recv(std::vector<TransferId>& ids, std::size_t from, std::byte* frame,
                   std::size_t bytes);

  Transport& transport_;
  const CompressedAllreduce& work_;
  const Codec& codec_;
  Scratch& scratch_;
  const std::size_t ranks_;
  const std::size_t me_;
  std::vector<Slice> slices_;
  std::byte* wide_ = nullptr;  // a run on its way to or from another type
};

void ScatterReduce::cut(std::size_t piece) {
  const std::size_t count = work_.pieces[piece].count;
  for (std::size_t begin = 0; begin < count; begin += kCut) {
    add_cut(piece, begin, std::min(kCut, count - begin));
  }
}

void ScatterReduce::add_cut(std::size_t piece, std::size_t begin, std::size_t count) {
  if (slices_.empty() || slices_.back().count >= kSliceElements) {
    const std::size_t at = slices_.empty() ? 0 : slices_.back().begin + slices_.back().count;
    slices_.emplace_back();
    slices_.back().begin = at;
    slices_.back().runs.resize(ranks_);
    slices_.back().bytes.resize(ranks_);
  }
  Slice& slice = slices_.back();
  const CompressedTensor& tensor = work_.compression.tensors()[work_.pieces[piece].tensor];
  const std::size_t block = codec_.block();
  const std::size_t blocks = (count + block - 1) / block;
  for (std::size_t part = 0; part < ranks_; ++part) {
    const Part run = even_part(blocks, ranks_, part);
    if (run.count == 0) continue;
    const std::size_t first = run.begin * block;
    const std::size_t length = std::min(run.count * block, count - first);
    const std::size_t owner = (part + tensor.turn) % ranks_;
    slice.runs[owner].push_back({piece, begin + first, length, slice.count + first});
    slice.bytes[owner] += codec_.encoded_bytes(length);
  }
  slice.count += count;
}

/// Gives every slice memory: those that are never under way together share it.
void ScatterReduce::lay_out() {
  std::size_t frames = 0, values = 0, longest = 0;
  for (const Slice& slice : slices_) {
    std::size_t all = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      all += slice.bytes[rank];
      for (const Run& run : slice.runs[rank]) longest = std::max(longest, run.count);
    }
    frames = std::max(frames, 2 * all + ranks_ * slice.bytes[me_]);
    values = std::max(values, slice.count);
  }
  std::byte* const memory = scratch_.block(0, kInFlight * frames);
  auto* const staged =
      work_.left != nullptr
          ? work_.left
          : reinterpret_cast<float*>(scratch_.block(1, kInFlight * values * sizeof(float)));
  wide_ = scratch_.block(2, longest * sizeof(double));
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    slice.values = staged + (work_.left != nullptr ? slice.begin : i % kInFlight * values);
    std::byte* at = memory + i % kInFlight * frames;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      slice.sent.push_back(at);
      slice.sums.push_back(at + slice.bytes[rank]);
      at += 2 * slice.bytes[rank];
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      slice.received.push_back(at);
      at += slice.bytes[me_];
    }
  }
}

/// Brings factor * in + residual of a run to its place.
void ScatterReduce::load(const Slice& slice, const Run& run) {
  const CompressedPiece& piece = work_.pieces[run.piece];
  float* values = slice.values + run.at;
  load_piece(work_, piece, run.begin, {values, run.count}, wide_);
  const auto& residual = work_.compression.tensors()[piece.tensor].residual;
  if (residual) residual->add_to({values, run.count}, piece.begin + run.begin);
}

/// Encodes what `owner` owns; what that loses takes the place of the values where it is kept.
void ScatterReduce::encode(const Slice& slice, std::size_t owner, std::byte* frame) {
  for (const Run& run : slice.runs[owner]) {
    const CompressedPiece& piece = work_.pieces[run.piece];
    const CompressedTensor& tensor = work_.compression.tensors()[piece.tensor];
    float* values = slice.values + run.at;
    codec_.encode({.values = {values, run.count},
                   .frame = frame,
                   .lost = tensor.residual ? values : nullptr,
                   .key = tensor.key,
                   .offset = piece.begin + run.begin});
    frame += codec_.encoded_bytes(run.count);
  }
}

Status ScatterReduce::send_parts(Slice& slice) {
  for (std::size_t step = 1; step <= ranks_; ++step) {  // this rank's own part last
    const std::size_t owner = (me_ + step) % ranks_;
    for (const Run& run : slice.runs[owner]) load(slice, run);
    if (owner == me_) continue;
    RONDE_RETURN_IF_ERROR(
        post_recv(slice.parts_in, owner, slice.received[owner], slice.bytes[me_]));
    encode(slice, owner, slice.sent[owner]);
    RONDE_RETURN_IF_ERROR(post_send(slice, owner, slice.sent[owner], slice.bytes[owner]));
  }
  return {};
}

/// Adds what the others sent of this rank's part.
Status ScatterReduce::add_parts(const Slice& slice) {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank == me_) continue;
    const std::byte* frame = slice.received[rank];
    for (const Run& run : slice.runs[me_]) {
      const std::size_t bytes = codec_.encoded_bytes(run.count);
      RONDE_RETURN_IF_ERROR(codec_.decode_add({frame, bytes}, {slice.values + run.at, run.count}));
      frame += bytes;
    }
  }
  return {};
}

Status ScatterReduce::send_sum(Slice& slice) {
  RONDE_RETURN_IF_ERROR(wait(slice.parts_in));
  RONDE_RETURN_IF_ERROR(add_parts(slice));
  encode(slice, me_, slice.sums[me_]);
  for (std::size_t step = 1; step < ranks_; ++step) {
    const std::size_t peer = (me_ + step) % ranks_;
    RONDE_RETURN_IF_ERROR(post_recv(slice.sums_in, peer, slice.sums[peer], slice.bytes[peer]));
    RONDE_RETURN_IF_ERROR(post_send(slice, peer, slice.sums[me_], slice.bytes[me_]));
  }
  return {};
}

Status ScatterReduce::finish(Slice& slice) {
  RONDE_RETURN_IF_ERROR(wait(slice.sums_in));
  for (std::size_t owner = 0; owner < ranks_; ++owner) {
    RONDE_RETURN_IF_ERROR(decode_out(slice, owner));
    for (const Run& run : slice.runs[owner]) {
      const CompressedPiece& piece = work_.pieces[run.piece];
      work_.compression.leave(piece.tensor, piece.begin + run.begin,
                              {slice.values + run.at, run.count});
    }
  }
  return wait(slice.out);
}

Status ScatterReduce::decode_out(const Slice& slice, std::size_t owner) {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  const std::byte* frame = slice.sums[owner];
  for (const Run& run : slice.runs[owner]) {
    const std::size_t bytes = codec_.encoded_bytes(run.count);
    std::byte* out = work_.pieces[run.piece].out;
    if (out != nullptr) {
      out += run.begin * size_of(work_.out_dtype);
      const bool direct = work_.out_dtype == DType::kFloat32;
      auto* values = reinterpret_cast<float*>(direct ? out : wide_);
      RONDE_RETURN_IF_ERROR(codec_.decode({frame, bytes}, {values, run.count}));
      if (!direct) work_.kernels.cast(DType::kFloat32, wide_, work_.out_dtype, out, run.count);
    }
    frame += bytes;
  }
  return {};
}

Status ScatterReduce::wait(std::vector<TransferId>& ids) {
  for (const TransferId id : ids) RONDE_RETURN_IF_ERROR(transport_.wait(id, work_.abort));
  ids.clear();
  return {};
}

Status ScatterReduce::post_send(Slice& slice, std::size_t to, std::byte* frame, std::size_t bytes) {
  if (bytes == 0) return {};
  RONDE_ASSIGN_OR_RETURN(const TransferId id,
                         transport_.send(static_cast<int>(to), {frame, bytes}));
  slice.out.push_back(id);
  return {};
}

Status ScatterReduce::post_recv(std::vector<TransferId>& ids, std::size_t from, std::byte* frame,
                                std::size_t bytes) {
  if (bytes == 0) return {};
  RONDE_ASSIGN_OR_RETURN(const TransferId id,
                         transport_.recv(static_cast<int>(from), {frame, bytes}));
  ids.push_back(id);
  return {};
}

}  // namespace

Status quantised_allreduce(Transport& transport, const CompressedAllreduce& work,
                           Scratch& scratch) {
  return ScatterReduce(transport, work, scratch).run();
}

}  // namespace ronde
