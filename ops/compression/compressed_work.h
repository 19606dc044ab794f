// What travels with one bundle that is to be compressed, from the executor to whoever compresses:
// the scheme, and what each tensor has left over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/event_sink.h"
#include "ops/compression/codec.h"
#include "ops/compression/residuals.h"

namespace ronde {

/// A compression and the codec it stands for, if it has one.
struct Scheme {
  explicit Scheme(const CompressionSpec& of) : spec(of), codec(make_codec(of)) {}
  CompressionSpec spec;
  std::unique_ptr<const Codec> codec;  ///< Null where values are chosen rather than rounded.
};

/// One tensor of a compressed bundle; its position is that of its segment.
struct CompressedTensor {
  std::shared_ptr<Residual> residual;  ///< Null without error feedback.
  std::shared_ptr<Residual> momentum;  ///< Of momentum correction; null without.
  std::shared_ptr<Residual> basis;     ///< powersgd: what its next step begins with; null without.
  std::size_t columns = 0;             ///< Elements of a row where it has two dimensions, else 0.
  std::uint64_t key = 0;               ///< Of this rank's random bits for it in this step.
  std::uint64_t common_key = 0;        ///< The same on all ranks that are at the same step.
  std::uint64_t step = 0;              ///< How often it was compressed before.
  std::size_t turn = 0;  ///< Which rank owns its first part: so that small tensors take turns.
};

/// Threads: one at a time.
class CompressedWork {
 public:
  /// `scheme` outlives it.
  CompressedWork(const Scheme& scheme, std::vector<CompressedTensor> tensors)
      : scheme_(scheme), tensors_(std::move(tensors)) {}

  [[nodiscard]] const Scheme& scheme() const noexcept { return scheme_; }
  /// Of schemes that have one.
  [[nodiscard]] const Codec& codec() const noexcept { return *scheme_.codec; }
  [[nodiscard]] std::span<const CompressedTensor> tensors() const noexcept { return tensors_; }
  /// Bytes that go in for each byte that travels, 1 where there are none; of schemes with a codec.
  [[nodiscard]] double ratio(const Work& work) const noexcept;
  /// Values that are kept of each element: 0, 1 (residuals), or 2 (and momentum).
  [[nodiscard]] std::size_t kept_floats() const noexcept;

  /// What was sent so far, and what took how long. One thread writes it, that which compresses.
  [[nodiscard]] CompressionFacts& facts() noexcept { return facts_; }

  /// Takes what is kept to host memory, where the CPU's codecs read it. Blocks until devices are
  /// done with it. Errors: theirs.
  Status bring_to_host(const AbortToken& abort);

  /// Notes what is left of elements of a tensor from `begin` on; the values must stay until
  /// commit().
  void leave(std::size_t tensor, std::size_t begin, std::span<const float> left);
  /// As leave(), of its momentum.
  void leave_momentum(std::size_t tensor, std::size_t begin, std::span<const float> momentum);
  /// What was noted of a tensor beside its result in `work`: before commit(), by which it is
  /// forgotten. Nothing where the tensor keeps nothing or its result is not finite.
  [[nodiscard]] std::optional<CompressionLoss> loss(std::size_t tensor, const Work& work) const;
  /// Brings what was noted to the residuals, now that the outputs of `work` are there. Tensors
  /// whose output is not finite everywhere keep what they had: their step is one that all ranks
  /// skip.
  void commit(const Work& work);

 private:
  struct Left {
    std::size_t tensor = 0;
    std::size_t begin = 0;
    std::span<const float> values;
    Residual* to = nullptr;
  };

  const Scheme& scheme_;
  std::vector<CompressedTensor> tensors_;
  std::vector<Left> left_;
  CompressionFacts facts_;
};

/// The Euclidean norm of elements of a floating type.
double norm_of(DType dtype, const void* values, std::size_t count) noexcept;

/// Whether all elements of a floating type are finite.
bool all_finite(DType dtype, const void* values, std::size_t count) noexcept;

}  // namespace ronde
