// Allreduce without staging: each rank owns a part of the tensor, reads it from all ranks' inputs,
// reduces it, and either writes the result to all outputs (where they are in arenas) or leaves it
// in its own, from which the others read it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/shm/combiner.h"
#include "backends/shm/direct.h"

namespace ronde::shm {
namespace {

/// Peers' inputs are brought in by blocks of this size, which stay in the L2 cache. Smaller ones
/// cost more system calls.
constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
/// Blocks of what can be read in place stay in the L1 cache until they are written to all outputs.
constexpr std::size_t kMappedBlockBytes = std::size_t{16} << 10;
constexpr std::size_t kPage = 4096;

class DirectAllreduce {
 public:
  DirectAllreduce(const Context& with, const Work& work, const Places& places)
      : with_(with),
        what_(work.reduction),
        places_(places),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        streaming_(total_bytes(work) >= kStreamingBytes),
        copier_({.outputs = streaming_}),
        own_(work.segments),
        all_(work.segments),
        part_((total_bytes(work) / ranks_ + kPage) / kPage * kPage) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      delivered_ = delivered_ && places.of(r).out_mapped;
      if (r == me_) continue;
      pulls_ = pulls_ || !places.of(r).in_mapped;
      pushes_ = pushes_ || places.of(r).out_mapped;
    }
    const std::size_t limit =
        pulls_ ? std::clamp(kStagingBytes / ranks_ / kPage * kPage, kPage, kBlockBytes)
               : kMappedBlockBytes;
    block_ = std::min(part_, limit);
    if (pulls_) with.scratch.staging.resize(ranks_ * (block_ + kAlign));
  }

  Status run() {
    RONDE_RETURN_IF_ERROR(with_.steps.begin(with_.stop));
    RONDE_RETURN_IF_ERROR(reduce_own());
    copier_.fence();
    with_.steps.arrive();
    RONDE_RETURN_IF_ERROR(with_.steps.wait_all(with_.steps.current() - 1, with_.stop));
    if (delivered_) return {};
    if (!places_.of(me_).out_mapped) RONDE_RETURN_IF_ERROR(fetch());
    return meet(with_);
  }

 private:
  [[nodiscard]] std::byte* staged(std::size_t r) const {
    return with_.scratch.staging.data() + r * (block_ + kAlign);
  }

  Status reduce_own() {
    own_.seek(me_ * part_);
    for (std::size_t done = 0; done < part_; done += block_) {
      const std::size_t bytes = std::min(block_, part_ - done);
      RONDE_RETURN_IF_ERROR(stage(bytes));
      if (with_.stop.aborted()) return with_.stop.status();
      std::size_t offset = 0;
      own_.take(bytes, [&](const Segment& piece) {
        reduce_piece(piece, offset);
        push(piece);
        offset += piece.bytes;
      });
    }
    return {};
  }

  /// Brings in the next block of the inputs that cannot be read in place.
  Status stage(std::size_t bytes) {
    for (std::size_t r = 0; pulls_ && r < ranks_; ++r) {
      if (r != me_ && !places_.of(r).in_mapped) RONDE_RETURN_IF_ERROR(stage_from(r, bytes));
    }
    return {};
  }

  Status stage_from(std::size_t r, std::size_t bytes) {
    Pull pull(with_.reach.pids[r], with_.stop);
    Cursor cursor = own_;
    std::byte* to = staged(r);
    Status status;
    cursor.take(bytes, [&](const Segment& piece) {
      const std::byte* from = places_.of(r).segments[cursor.segment()].in + cursor.within();
      if (status.ok()) status = pull.add(from, to, piece.bytes);
      to += piece.bytes;
    });
    RONDE_RETURN_IF_ERROR(status);
    return pull.finish();
  }

  [[nodiscard]] const std::byte* input(std::size_t r, const Segment& piece,
                                       std::size_t offset) const {
    if (r == me_) return piece.in;
    const Place& place = places_.of(r);
    if (!place.in_mapped) return staged(r) + offset;
    return place.segments[own_.segment()].in + own_.within();
  }

  void reduce_piece(const Segment& piece, std::size_t offset) {
    auto& inputs = with_.scratch.inputs;
    for (std::size_t r = 0; r < ranks_; ++r) inputs[r] = input(r, piece, offset);
    const std::size_t count = piece.bytes / size_of(what_.dtype);
    if (streaming_ && !pushes_ && piece.in != piece.out) {
      with_.kernels.reduce_streaming(what_, inputs, piece.out, count);
    } else {
      with_.kernels.reduce(what_, inputs, piece.out, count);
    }
  }

  /// Writes a result to the outputs that can be written from here.
  void push(const Segment& piece) {
    for (std::size_t r = 0; pushes_ && r < ranks_; ++r) {
      const Place& place = places_.of(r);
      if (r == me_ || !place.out_mapped) continue;
      copier_.write(piece.out, place.segments[own_.segment()].out + own_.within(), piece.bytes);
    }
  }

  /// Reads the other parts from their owners, beginning with the next so that they spread.
  Status fetch() {
    for (std::size_t i = 1; i < ranks_; ++i) RONDE_RETURN_IF_ERROR(fetch_from((me_ + i) % ranks_));
    return {};
  }

  Status fetch_from(std::size_t owner) {
    Cursor cursor = all_;
    cursor.seek(owner * part_);
    const Place& place = places_.of(owner);
    Pull pull(with_.reach.pids[owner], with_.stop);
    Status status;
    cursor.take(part_, [&](const Segment& piece) {
      const std::byte* from = place.segments[cursor.segment()].out + cursor.within();
      if (place.out_mapped) {
        copier_.write(from, piece.out, piece.bytes);
      } else if (status.ok()) {
        status = pull.add(from, piece.out, piece.bytes);
      }
    });
    RONDE_RETURN_IF_ERROR(status);
    return pull.finish();
  }

  const Context& with_;
  const Reduction& what_;
  const Places& places_;
  const std::size_t ranks_;
  const std::size_t me_;
  const bool streaming_;
  const Copier copier_;
  bool pulls_ = false;     ///< Some peer's inputs have to be staged.
  bool pushes_ = false;    ///< Some peer's outputs can be written from here.
  bool delivered_ = true;  ///< All outputs can be written by all.
  Cursor own_;             ///< In this rank's part.
  const Cursor all_;       ///< At the beginning.
  const std::size_t part_;
  std::size_t block_ = 0;
};

}  // namespace

Status direct_allreduce(const Context& with, const Work& work) {
  // Each byte that the kernel copies, it copies twice: staging is faster.
  RONDE_ASSIGN_OR_RETURN(const Places places,
                         Places::exchange(with, work.segments, with.reach.always));
  if (!places.usable()) return two_shot(with, work);
  return DirectAllreduce(with, work, places).run();
}

}  // namespace ronde::shm
