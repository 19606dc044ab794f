// What travels with one bundle that is to be compressed, from the executor to whoever compresses:
// the codec, and what each tensor has left over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ports/backend.h"
#include "ops/compression/codec.h"
#include "ops/compression/residuals.h"

namespace ronde {

/// One tensor of a compressed bundle; its position is that of its segment.
struct CompressedTensor {
  std::shared_ptr<Residual> residual;  ///< Null without error feedback.
  std::uint64_t key = 0;               ///< Of this rank's random bits for it in this step.
  std::size_t turn = 0;  ///< Which rank owns its first part: so that small tensors take turns.
};

/// Threads: one at a time.
class CompressedWork {
 public:
  CompressedWork(const Codec& codec, std::vector<CompressedTensor> tensors)
      : codec_(codec), tensors_(std::move(tensors)) {}

  [[nodiscard]] const Codec& codec() const noexcept { return codec_; }
  [[nodiscard]] std::span<const CompressedTensor> tensors() const noexcept { return tensors_; }
  /// Whether any tensor has a residual.
  [[nodiscard]] bool has_residuals() const noexcept;

  /// Notes what is left of elements of a tensor from `begin` on; the values must stay until
  /// commit().
  void leave(std::size_t tensor, std::size_t begin, std::span<const float> left);
  /// Brings what was noted to the residuals, now that the outputs of `work` are there. Tensors
  /// whose output is not finite everywhere keep what they had: their step is one that all ranks
  /// skip.
  void commit(const Work& work);

 private:
  struct Left {
    std::size_t tensor = 0;
    std::size_t begin = 0;
    std::span<const float> values;
  };

  const Codec& codec_;
  std::vector<CompressedTensor> tensors_;
  std::vector<Left> left_;
};

/// Whether all elements of a floating type are finite.
bool all_finite(DType dtype, const void* values, std::size_t count) noexcept;

}  // namespace ronde
