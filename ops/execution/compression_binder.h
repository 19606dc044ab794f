// Binds bundles to their codec, their residuals and reproducible random bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ports/executor.h"
#include "ops/communicator/number_exchange.h"
#include "ops/compression/compressed_work.h"
#include "ops/compression/residuals.h"

namespace ronde {

/// For one group. Random bits depend on the codec's seed, the tensor's name, how often it was
/// compressed, and the rank. Threads: one at a time.
class CompressionBinder {
 public:
  struct Options {
    std::shared_ptr<ResidualStore> residuals;  ///< Null: compression without error feedback.
    std::size_t loss_steps = 0;  ///< Note a tensor's loss every N of its steps (0: never).
    int set = 0;                 ///< The process set, as residuals are kept by it.
    int rank = 0;
  };
  explicit CompressionBinder(Options options) : options_(std::move(options)) {}

  /// The codec and residuals of a bundle for `compression`. Lives no longer than this.
  /// Errors: kInvalidArgument where the compression is unknown.
  Result<CompressedWork> prepare(const Bundle& bundle, const std::string& compression);
  /// True if a bundle still travels dense; then a step of its tensors is counted. Ranks may have
  /// counted different steps (one had joined, or is new): they exchange them, and the largest
  /// decides. Once a warm-up has ended, they exchange nothing. Blocks.
  /// Errors: as prepare(); those of `exchange`.
  Result<bool> travels_dense(const Bundle& bundle, const std::string& compression,
                             NumberExchange& exchange, const AbortToken& abort);
  /// True if note_losses() is to note any.
  [[nodiscard]] bool wants_losses(const CompressedWork& compressed) const;
  /// Notes the loss of each tensor whose step is due, and reports it to `events`, which may be
  /// null. Call before commit().
  void note_losses(const Bundle& bundle, const Work& work, const CompressedWork& compressed,
                   EventSink* events) const;

 private:
  /// Records on all ranks that the warm-up of a bundle's tensors is over, in all later bundles:
  /// until one has another size or codec, or residuals are loaded.
  void end_warm_up(const Bundle& bundle, const std::string& compression);
  Result<const Scheme*> look_up(const std::string& text);
  std::shared_ptr<Residual> residual_of(const Bundle& bundle, std::size_t index,
                                        const CompressionSpec& spec) const;
  CompressedTensor prepare_tensor(const Bundle& bundle, std::size_t index,
                                  const CompressionSpec& spec);

  struct Warm {  // as agreed of a tensor
    std::size_t count = 0;
    std::string compression;
  };
  bool is_warm(const Bundle& bundle, const std::string& compression) const;

  const Options options_;
  std::map<std::string, Scheme> known_;  // by their texts
  std::map<std::string, Warm> warm_;     // by the residual's key: the same on all ranks
  std::uint64_t bundles_ = 0;            // so far
};

}  // namespace ronde
