// Prepares bundles for compression: their codec, their residuals, and random bits that a replay of
// the job finds again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/ports/executor.h"
#include "ops/compression/compressed_work.h"
#include "ops/execution/executor.h"

namespace ronde {

/// Where a bundle stands between dense and its codec.
struct WarmUp {
  std::int64_t dense_steps = 0;  ///< 0 where there are none, or ranks agreed that they are over.
  std::int64_t passed = -1;      ///< By that of its tensors which passed the fewest; -1: none keeps
                                 ///< anything on this rank.
};

/// For one group. A compressed allreduce goes over the data plane's transport even where the plane
/// has an allreduce of its own, but for the hierarchical plane, which compresses between hosts
/// alone; a group of one rank compresses nothing. Random bits depend on the codec's seed, the
/// tensor's name, how often it was compressed, and the rank.
/// Threads: one at a time.
class Compressor {
 public:
  /// Reads the residuals, the set and the rank.
  explicit Compressor(const ExecutorOptions& options);

  /// What to run a compressible bundle with. Lives no longer than this.
  /// Errors: kInvalidArgument where the compression is unknown.
  Result<CompressedWork> prepare(const Bundle& bundle);
  /// What a bundle is to be compressed by. Errors: as prepare().
  Result<CompressionSpec> spec_of(const Bundle& bundle);
  /// How far a bundle is in its codec's warm-up. Whether `dense_steps` is 0 is the same on all
  /// ranks: it follows from the bundle, and from the bundles that end_warm_up() was told of.
  /// Errors: as prepare().
  Result<WarmUp> warm_up(const Bundle& bundle);
  /// All ranks know that the warm-up of a bundle's tensors is over, in whatever bundles they travel
  /// from now on: until one has another size or codec, or what is kept is loaded anew.
  void end_warm_up(const Bundle& bundle);
  /// Counts a step of the bundle's tensors, in which they travel dense.
  Status pass_step(const Bundle& bundle);
  /// Whether note_losses() is to note any.
  [[nodiscard]] bool wants_losses(const CompressedWork& compressed) const;
  /// Notes what each tensor has left over where that is asked for, and tells `events`, which may be
  /// null: to be called before commit().
  void note_losses(const Bundle& bundle, const Work& work, const CompressedWork& compressed,
                   EventSink* events) const;

 private:
  Result<const Scheme*> look_up(const std::string& text);
  std::shared_ptr<Residual> residual_of(const Bundle& bundle, std::size_t index,
                                        const CompressionSpec& spec) const;
  CompressedTensor prepare_tensor(const Bundle& bundle, std::size_t index,
                                  const CompressionSpec& spec);

  struct Warm {  // what was agreed of a tensor
    std::size_t count = 0;
    std::string compression;
  };
  bool is_warm(const Bundle& bundle) const;

  const std::shared_ptr<ResidualStore> residuals_;
  const std::size_t loss_steps_;
  const int set_;
  const int rank_;
  std::map<std::string, Scheme> known_;  // by their texts
  std::map<std::string, Warm> warm_;     // by what is kept of a tensor: the same on all ranks
  std::uint64_t bundles_ = 0;            // so far
};

}  // namespace ronde
