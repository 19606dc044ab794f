// Allreduce without staging. Each rank owns a chunk of the tensor. It reads the chunk from all
// ranks' inputs and reduces it block by block. It writes each result to all outputs while it is in
// the cache. Only its owner reads and writes a chunk, so ranks wait for each other only at both
// ends.
#include "backends/shm/collectives/combiner.h"
#include "backends/shm/collectives/direct.h"
#include "backends/shm/collectives/own_chunk.h"
#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/write_permission.h"

namespace ronde::shm {
namespace {

class DirectAllreduce {
 public:
  DirectAllreduce(const Context& with, const Work& work, const Places& places)
      : with_(with),
        work_(work),
        places_(places),
        ranks_(static_cast<std::size_t>(with.steps.ranks())),
        me_(static_cast<std::size_t>(with.steps.rank())),
        copier_(streams(with, total_bytes(work))),
        chunk_((total_bytes(work) / ranks_ + kPage) / kPage * kPage) {}

  Status run() {
    PhaseObserver* const observer = observer_of_large(with_);
    {
      const Phase phase(observer, "reduce");
      RONDE_RETURN_IF_ERROR(reduce_own());
      copier_.fence();
    }
    const Phase phase(observer, kWaitPhase);
    return synchronise(with_);
  }

 private:
  Status reduce_own() {
    Cursor own(work_.segments);
    own.seek(me_ * chunk_);
    // Own results stay in the cache, from where they are written to the others.
    OwnChunk part(with_, work_.reduction, places_, {.own = own, .bytes = chunk_});
    return part.run([&](const Cursor& at, std::size_t bytes) { return push(at, bytes); });
  }

  /// Writes results to the outputs of all others, beginning with the next so that they spread.
  Status push(const Cursor& at, std::size_t bytes) {
    for (std::size_t i = 1; i < ranks_; ++i) {
      const std::size_t to = (me_ + i) % ranks_;
      RONDE_RETURN_IF_ERROR(with_.permission.write(static_cast<int>(to), with_.stop,
                                                   [&] { return push_to(to, at, bytes); }));
    }
    return {};
  }

  Status push_to(std::size_t to, Cursor at, std::size_t bytes) {
    const Place& place = places_.of(to);
    Transfer push(Transfer::Direction::kPush, with_, to, place.out_mapped ? &copier_ : nullptr);
    at.take(bytes, [&](const Segment& piece) {
      push.add(piece.out, place.segments[at.segment()].out + at.within(), piece.bytes);
    });
    return push.finish();
  }

  const Context& with_;
  const Work& work_;
  const Places& places_;
  const std::size_t ranks_;
  const std::size_t me_;
  const Copier copier_;
  const std::size_t chunk_;
};

/// Below and above, two ranks that reduce are faster through shared memory.
constexpr std::size_t kKernelFrom = std::size_t{512} << 10;
constexpr std::size_t kKernelTo = std::size_t{8} << 20;

bool uses_kernel(const Context& with, std::size_t bytes) {
  const bool fits = kKernelFrom <= bytes && bytes <= kKernelTo;
  return favours_kernel(with, bytes) && (with.reach.always || fits);
}

}  // namespace

Status direct_allreduce(const Context& with, const Work& work) {
  RONDE_ASSIGN_OR_RETURN(
      const Places places,
      Places::exchange(with, work.segments, uses_kernel(with, total_bytes(work))));
  if (!places.usable()) return two_shot(with, work);
  const Phase phase(with.phases, "direct");
  return DirectAllreduce(with, work, places).run();
}

}  // namespace ronde::shm
