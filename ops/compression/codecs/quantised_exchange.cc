#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "ops/compression/codecs/partition.h"
#include "ops/compression/compressed_allreduce.h"

namespace ronde {
namespace {

constexpr std::size_t kSliceElements = std::size_t{1} << 20;  // cuts that travel together
constexpr std::size_t kInFlight = 3;

/// The memory and messages of a slice.
struct MovingSlice : Slice {
  explicit MovingSlice(Slice&& slice) : Slice(std::move(slice)) {}
  float* values = nullptr;
  std::vector<std::byte*> sent;      // to each owner
  std::vector<std::byte*> received;  // my chunk, from each rank
  std::vector<std::byte*> sums;      // of each owner
  std::vector<TransferId> parts_in, sums_in, out;
};

/// The two halves of an allreduce, each of which is a collective by itself.
enum class Halves : std::uint8_t { kReduce, kGather, kBoth };

class QuantisedExchange {
 public:
  QuantisedExchange(Transport& transport, const CompressedAllreduce& work, Scratch& scratch,
                    Halves halves)
      : transport_(transport),
        work_(work),
        codec_(work.compression.codec()),
        scratch_(scratch),
        ranks_(static_cast<std::size_t>(transport.size())),
        me_(static_cast<std::size_t>(transport.rank())),
        reduces_(halves != Halves::kGather),
        gathers_(halves != Halves::kReduce),
        finite_(work.compression.tensors().size(), 1) {
    auto slices =
        halves == Halves::kBoth
            ? partition(work.pieces, work.compression, ranks_, kSliceElements)
            : partition_by_owner(work.pieces, work.owners, codec_, ranks_, kSliceElements);
    for (Slice& slice : slices) slices_.emplace_back(std::move(slice));
    lay_out();
  }

  Status run() {
    for (std::size_t i = 0; i < slices_.size() + kInFlight - 1; ++i) {
      if (i < slices_.size()) RONDE_RETURN_IF_ERROR(send_parts(slices_[i]));
      if (i >= 1 && i - 1 < slices_.size()) RONDE_RETURN_IF_ERROR(send_sum(slices_[i - 1]));
      if (i >= 2) RONDE_RETURN_IF_ERROR(finish(slices_[i - 2]));
    }
    const bool keeps = work_.compression.scheme().spec.error_feedback;
    return gathers_ || !keeps ? Status() : agree_on_finite();
  }

 private:
  void lay_out();
  Status send_parts(MovingSlice& slice);
  Status add_parts(const MovingSlice& slice);
  Status send_sum(MovingSlice& slice);
  Status finish(MovingSlice& slice);
  void load(const MovingSlice& slice, const OwnedRun& run);
  void encode(const MovingSlice& slice, std::size_t owner, std::byte* frame);
  Status decode_out(const MovingSlice& slice, std::size_t owner);
  void write_sums(const MovingSlice& slice);
  void leave(const MovingSlice& slice);
  Status agree_on_finite();
  Status wait(std::vector<TransferId>& ids);
  Status post_send(MovingSlice& slice, std::size_t to, std::byte* frame, std::size_t bytes);
  Status post_recv(std::vector<TransferId>& ids, std::size_t from, std::byte* frame,
                   std::size_t bytes);

  Transport& transport_;
  const CompressedAllreduce& work_;
  const Codec& codec_;
  Scratch& scratch_;
  const std::size_t ranks_;
  const std::size_t me_;
  const bool reduces_;
  const bool gathers_;
  std::vector<MovingSlice> slices_;
  std::vector<std::uint8_t> finite_;  // by tensor: this rank's own sums are, without kGather
  std::byte* wide_ = nullptr;         // a run between its type and fp32
};

/// Gives every slice memory. Slices that are never under way together share it.
void QuantisedExchange::lay_out() {
  const std::size_t both = reduces_ && gathers_ ? 2 : 1;
  std::size_t frames = 0, values = 0, longest = 0;
  for (const MovingSlice& slice : slices_) {
    for (const auto& runs : slice.runs) {
      for (const OwnedRun& run : runs) longest = std::max(longest, run.count);
    }
    const std::size_t received = reduces_ ? ranks_ * slice.bytes[me_] : 0;
    frames = std::max(frames, both * slice.all_bytes() + received);
    values = std::max(values, slice.count);
  }
  std::byte* const memory = scratch_.block(0, kInFlight * frames);
  auto* const staged =
      work_.left != nullptr
          ? work_.left
          : reinterpret_cast<float*>(scratch_.block(1, kInFlight * values * sizeof(float)));
  wide_ = scratch_.block(2, longest * sizeof(double));
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    MovingSlice& slice = slices_[i];
    slice.values = staged + (work_.left != nullptr ? slice.begin : i % kInFlight * values);
    std::byte* at = memory + i % kInFlight * frames;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      slice.sent.push_back(at);
      if (both == 2) at += slice.bytes[rank];
      slice.sums.push_back(at);
      at += slice.bytes[rank];
    }
    for (std::size_t rank = 0; reduces_ && rank < ranks_; ++rank) {
      slice.received.push_back(at);
      at += slice.bytes[me_];
    }
  }
}

/// Writes factor * in + residual of a run to its place.
void QuantisedExchange::load(const MovingSlice& slice, const OwnedRun& run) {
  const CompressedPiece& piece = work_.pieces[run.piece];
  float* values = slice.values + run.at;
  load_piece(work_, piece, run.begin, {values, run.count}, wide_);
  const auto& residual = work_.compression.tensors()[piece.tensor].residual;
  if (residual) residual->add_to({values, run.count}, piece.begin + run.begin);
}

/// Encodes the elements of `owner`. The loss replaces the values if it is kept.
void QuantisedExchange::encode(const MovingSlice& slice, std::size_t owner, std::byte* frame) {
  for (const OwnedRun& run : slice.runs[owner]) {
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

Status QuantisedExchange::send_parts(MovingSlice& slice) {
  if (!reduces_) {
    for (const OwnedRun& run : slice.runs[me_]) load(slice, run);
    return {};
  }
  for (std::size_t step = 1; step <= ranks_; ++step) {  // this rank's own chunk last
    const std::size_t owner = (me_ + step) % ranks_;
    for (const OwnedRun& run : slice.runs[owner]) load(slice, run);
    if (owner == me_) continue;
    RONDE_RETURN_IF_ERROR(
        post_recv(slice.parts_in, owner, slice.received[owner], slice.bytes[me_]));
    encode(slice, owner, slice.sent[owner]);
    RONDE_RETURN_IF_ERROR(post_send(slice, owner, slice.sent[owner], slice.bytes[owner]));
  }
  return {};
}

/// Adds the others' frames of this rank's chunk.
Status QuantisedExchange::add_parts(const MovingSlice& slice) {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank == me_) continue;
    const std::byte* frame = slice.received[rank];
    for (const OwnedRun& run : slice.runs[me_]) {
      const std::size_t bytes = codec_.encoded_bytes(run.count);
      RONDE_RETURN_IF_ERROR(codec_.decode_add({frame, bytes}, {slice.values + run.at, run.count}));
      frame += bytes;
    }
  }
  return {};
}

Status QuantisedExchange::send_sum(MovingSlice& slice) {
  if (reduces_) {
    RONDE_RETURN_IF_ERROR(wait(slice.parts_in));
    RONDE_RETURN_IF_ERROR(add_parts(slice));
  }
  if (!gathers_) return {};
  encode(slice, me_, slice.sums[me_]);
  for (std::size_t step = 1; step < ranks_; ++step) {
    const std::size_t peer = (me_ + step) % ranks_;
    RONDE_RETURN_IF_ERROR(post_recv(slice.sums_in, peer, slice.sums[peer], slice.bytes[peer]));
    RONDE_RETURN_IF_ERROR(post_send(slice, peer, slice.sums[me_], slice.bytes[me_]));
  }
  return {};
}

Status QuantisedExchange::finish(MovingSlice& slice) {
  RONDE_RETURN_IF_ERROR(wait(slice.sums_in));
  for (std::size_t owner = 0; gathers_ && owner < ranks_; ++owner) {
    RONDE_RETURN_IF_ERROR(decode_out(slice, owner));
  }
  if (!gathers_) write_sums(slice);
  if (reduces_) leave(slice);
  return wait(slice.out);
}

/// Notes what is lost, which has replaced the values.
void QuantisedExchange::leave(const MovingSlice& slice) {
  for (const auto& runs : slice.runs) {
    for (const OwnedRun& run : runs) {
      const CompressedPiece& piece = work_.pieces[run.piece];
      work_.compression.leave(piece.tensor, piece.begin + run.begin,
                              {slice.values + run.at, run.count});
    }
  }
}

/// Writes this rank's sums as they are. Nothing is lost of them. A sum that is finite here may be
/// infinite in the tensor's type.
void QuantisedExchange::write_sums(const MovingSlice& slice) {
  for (const OwnedRun& run : slice.runs[me_]) {
    const CompressedPiece& piece = work_.pieces[run.piece];
    float* values = slice.values + run.at;
    const DType type = work_.compression.tensors()[piece.tensor].dtype;
    work_.kernels.cast(DType::kFloat32, values, type, wide_, run.count);
    const bool finite = all_finite(type, wide_, run.count);
    finite_[piece.tensor] = finite_[piece.tensor] != 0 && finite ? 1 : 0;
    if (piece.out != nullptr) {
      std::byte* const out = piece.out + run.begin * size_of(work_.out_dtype);
      work_.kernels.cast(DType::kFloat32, values, work_.out_dtype, out, run.count);
    }
    std::fill_n(values, run.count, 0.0F);
  }
}

/// All ranks send all others which of their sums are finite.
Status QuantisedExchange::agree_on_finite() {
  std::vector<std::vector<std::uint8_t>> others(ranks_, finite_);
  std::vector<TransferId> ids;
  for (std::size_t step = 1; step < ranks_; ++step) {
    const auto peer = static_cast<int>((me_ + step) % ranks_);
    auto& theirs = others[static_cast<std::size_t>(peer)];
    RONDE_ASSIGN_OR_RETURN(const TransferId in,
                           transport_.recv(peer, std::as_writable_bytes(std::span(theirs))));
    RONDE_ASSIGN_OR_RETURN(const TransferId out,
                           transport_.send(peer, std::as_bytes(std::span(finite_))));
    ids.insert(ids.end(), {in, out});
  }
  RONDE_RETURN_IF_ERROR(wait(ids));
  std::vector<bool> all(finite_.size(), true);
  for (const auto& theirs : others) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] && theirs[i] != 0;
  }
  work_.compression.note_finite(std::move(all));
  return {};
}

Status QuantisedExchange::decode_out(const MovingSlice& slice, std::size_t owner) {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  const std::byte* frame = slice.sums[owner];
  for (const OwnedRun& run : slice.runs[owner]) {
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

Status QuantisedExchange::wait(std::vector<TransferId>& ids) {
  for (const TransferId id : ids) RONDE_RETURN_IF_ERROR(transport_.wait(id, work_.abort));
  ids.clear();
  return {};
}

Status QuantisedExchange::post_send(MovingSlice& slice, std::size_t to, std::byte* frame,
                                    std::size_t bytes) {
  if (bytes == 0) return {};
  RONDE_ASSIGN_OR_RETURN(const TransferId id,
                         transport_.send(static_cast<int>(to), {frame, bytes}));
  slice.out.push_back(id);
  return {};
}

Status QuantisedExchange::post_recv(std::vector<TransferId>& ids, std::size_t from,
                                    std::byte* frame, std::size_t bytes) {
  if (bytes == 0) return {};
  RONDE_ASSIGN_OR_RETURN(const TransferId id,
                         transport_.recv(static_cast<int>(from), {frame, bytes}));
  ids.push_back(id);
  return {};
}

}  // namespace

Status quantised_allreduce(Transport& transport, const CompressedAllreduce& work,
                           Scratch& scratch) {
  return QuantisedExchange(transport, work, scratch, Halves::kBoth).run();
}

Status quantised_reduce_scatter(Transport& transport, const CompressedAllreduce& work,
                                Scratch& scratch) {
  return run_metered(transport, work.compression.facts(), [&](Transport& metered) {
    return QuantisedExchange(metered, work, scratch, Halves::kReduce).run();
  });
}

Status quantised_allgather(Transport& transport, const CompressedAllreduce& work,
                           Scratch& scratch) {
  return run_metered(transport, work.compression.facts(), [&](Transport& metered) {
    return QuantisedExchange(metered, work, scratch, Halves::kGather).run();
  });
}

}  // namespace ronde
