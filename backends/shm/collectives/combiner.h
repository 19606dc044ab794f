// Reduces what the ranks of a group have staged in their slots.
#pragma once

#include <cstddef>

#include "backends/shm/collectives/stream.h"
#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"

namespace ronde::shm {

/// Allreduce and reduce of large tensors, see collectives.h. Errors: the abort's status.
Status two_shot(const Context& with, const Work& work);

/// The inputs of one reduction: every rank's bytes, in ascending order of ranks.
class Combiner {
 public:
  /// `streaming`: outputs are written past the caches.
  Combiner(const Context& with, const Work& work, bool streaming)
      : with_(with),
        what_(work.reduction),
        element_(size_of(work.reduction.dtype)),
        streaming_(streaming) {}

  /// Compares the checksums of a part of the slots of `step`, which reduce() reads then. `own`:
  /// this rank's too.
  void check(Step step, std::size_t index, std::size_t offset, std::size_t bytes, PlaceInWork place,
             bool own) const {
    for (int r = 0; with_.checks != nullptr && r < with_.steps.ranks(); ++r) {
      if (r == with_.steps.rank() && !own) continue;
      read_part(with_, {r, step, index}, with_.steps.slot(r, step) + offset, bytes, place,
                [](const std::byte* from, std::size_t size, Checksum* sum) {
                  if (sum != nullptr) sum->add({from, size});
                });
    }
  }

  /// Reduces the bytes at `offset` of the other ranks' slots of `step`, and this rank's input
  /// `mine`, to `out`. `out` may be one of the inputs.
  void reduce(Step step, std::size_t offset, const std::byte* mine, std::byte* out,
              std::size_t bytes) const {
    auto& inputs = with_.scratch.inputs;
    for (int r = 0; r < with_.steps.ranks(); ++r) {
      inputs[static_cast<std::size_t>(r)] = with_.steps.slot(r, step) + offset;
    }
    inputs[static_cast<std::size_t>(with_.steps.rank())] = mine;
    if (streaming_) {
      with_.kernels.reduce_streaming(what_, inputs, out, bytes / element_);
    } else {
      with_.kernels.reduce(what_, inputs, out, bytes / element_);
    }
  }

 private:
  const Context& with_;
  const Reduction& what_;
  const std::size_t element_;
  const bool streaming_;
};

}  // namespace ronde::shm
