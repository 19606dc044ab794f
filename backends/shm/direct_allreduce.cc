// Allreduce without staging: each rank owns a part of the tensor, reads it from all ranks' inputs,
// reduces it, and either writes the result to all outputs (where they are in arenas) or leaves it
// in its own, from which the others read it.
#include "backends/shm/combiner.h"
#include "backends/shm/direct.h"
#include "backends/shm/own_part.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kPage = 4096;

class DirectAllreduce {
 public:
  DirectAllreduce(const Context& with, const Work& work, const Places& places)
      : with_(with),
        observer_(observer_of_large(with)),
        work_(work),
        places_(places),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        streaming_(total_bytes(work) >= kStreamingBytes),
        copier_({.outputs = streaming_}),
        all_(work.segments),
        part_((total_bytes(work) / ranks_ + kPage) / kPage * kPage) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      delivered_ = delivered_ && places.of(r).out_mapped;
      pushes_ = pushes_ || (r != me_ && places.of(r).out_mapped);
    }
  }

  Status run() {
    RONDE_RETURN_IF_ERROR(with_.steps.begin(with_.stop));
    RONDE_RETURN_IF_ERROR(reduce_own());
    with_.steps.arrive();
    RONDE_RETURN_IF_ERROR(wait_for_all());
    if (delivered_) return {};
    if (!places_.of(me_).out_mapped) RONDE_RETURN_IF_ERROR(fetch());
    const Phase phase(observer_, kWaitPhase);
    return meet(with_);
  }

 private:
  Status reduce_own() {
    const Phase phase(observer_, "reduce");
    Cursor own = all_;
    own.seek(me_ * part_);
    OwnPart part(with_, work_.reduction, places_,
                 {.own = own, .bytes = part_, .streaming = streaming_ && !pushes_});
    return part.run([&](const Segment& piece) { push(part, piece); });
  }

  Status wait_for_all() {
    const Phase phase(observer_, kWaitPhase);
    return with_.steps.wait_all(with_.steps.current() - 1, with_.stop);
  }

  /// Writes a result to the outputs that can be written from here.
  void push(const OwnPart& part, const Segment& piece) {
    for (std::size_t r = 0; pushes_ && r < ranks_; ++r) {
      const Place& place = places_.of(r);
      if (r == me_ || !place.out_mapped) continue;
      copier_.write(piece.out, place.segments[part.segment()].out + part.within(), piece.bytes);
    }
  }

  /// Reads the other parts from their owners, beginning with the next so that they spread.
  Status fetch() {
    const Phase phase(observer_, "fetch");
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
  PhaseObserver* const observer_;
  const Work& work_;
  const Places& places_;
  const std::size_t ranks_;
  const std::size_t me_;
  const bool streaming_;
  const Copier copier_;
  bool pushes_ = false;    ///< Some peer's outputs can be written from here.
  bool delivered_ = true;  ///< All outputs can be written by all.
  const Cursor all_;       ///< At the beginning.
  const std::size_t part_;
};

}  // namespace

Status direct_allreduce(const Context& with, const Work& work) {
  // Each byte that the kernel copies, it copies twice: staging is faster.
  RONDE_ASSIGN_OR_RETURN(const Places places,
                         Places::exchange(with, work.segments, with.reach.always));
  if (!places.usable()) return two_shot(with, work);
  const Phase phase(with.phases, "direct");
  return DirectAllreduce(with, work, places).run();
}

}  // namespace ronde::shm
