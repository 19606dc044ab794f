// The scheme and the residuals of one compressed bundle. The executor makes it; the allreduce reads
// the residuals and notes what the step loses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "ops/compression/codec.h"
#include "ops/compression/residuals.h"

namespace ronde {

/// A compression and its codec.
struct Scheme {
  explicit Scheme(const CompressionSpec& of) : spec(of), codec(make_codec(of)) {}
  CompressionSpec spec;
  std::unique_ptr<const Codec> codec;  ///< Null for payloads other than frames.
};

/// One tensor of a compressed bundle; its position is that of its segment.
struct CompressedTensor {
  std::shared_ptr<Residual> residual;  ///< Null without error feedback.
  std::shared_ptr<Residual> momentum;  ///< Null without momentum correction.
  std::shared_ptr<Residual>
      basis;                ///< powersgd: the factor that the next step begins with; else null.
  std::size_t columns = 0;  ///< Elements of a row; 0 with one dimension.
  std::uint64_t key = 0;    ///< Seeds this rank's random bits of this step.
  std::uint64_t common_key = 0;  ///< Equal on ranks that are at the same step.
  std::uint64_t step = 0;        ///< How often the tensor was compressed before.
  std::size_t turn = 0;  ///< The owner of its first chunk, so that small tensors take turns.
  /// Of its result. Over hosts, its sums have a wider type meanwhile.
  DType dtype = DType::kFloat32;
};

/// Threads: one at a time.
class CompressedWork {
 public:
  /// `scheme` outlives it.
  CompressedWork(const Scheme& scheme, std::vector<CompressedTensor> tensors)
      : scheme_(scheme), tensors_(std::move(tensors)) {}

  [[nodiscard]] const Scheme& scheme() const noexcept { return scheme_; }
  /// Only for schemes that have one.
  [[nodiscard]] const Codec& codec() const noexcept { return *scheme_.codec; }
  [[nodiscard]] std::span<const CompressedTensor> tensors() const noexcept { return tensors_; }
  /// Bytes of the tensors for each encoded byte; 1 for no bytes. Only for schemes with a codec.
  [[nodiscard]] double ratio(const Work& work) const noexcept;
  /// Floats that are kept of each element: 0, 1 (residual) or 2 (residual, momentum).
  [[nodiscard]] std::size_t kept_floats() const noexcept;

  /// Bytes and times so far. Only the thread that compresses writes them.
  [[nodiscard]] CompressionFacts& facts() noexcept { return facts_; }

  /// Moves residuals to host memory, where the CPU's codecs read them. Blocks until devices are
  /// done with them. Errors: the devices'.
  Status bring_to_host(const AbortToken& abort);

  /// Notes what the step loses of a tensor's elements from `begin` on. The values stay until
  /// commit().
  void leave(std::size_t tensor, std::size_t begin, std::span<const float> left);
  /// As leave(), for the momentum.
  void leave_momentum(std::size_t tensor, std::size_t begin, std::span<const float> momentum);
  /// The norms of what was noted of a tensor and of its result in `work`. Call before commit().
  /// Nothing for tensors without a residual, with a result that is not finite, or whose result is
  /// scattered.
  [[nodiscard]] std::optional<CompressionLoss> loss(std::size_t tensor, const Work& work) const;
  /// Notes, by tensor, if the results of all ranks are finite, where a rank has a part of them.
  void note_finite(std::vector<bool> finite) { finite_ = std::move(finite); }
  /// Copies what was noted to the residuals. The outputs of `work` are complete. Tensors whose
  /// output is not finite everywhere keep the old residual: all ranks skip such a step.
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
  std::vector<bool> finite_;  // empty: the outputs are whole
  CompressionFacts facts_;
};

/// The Euclidean norm of elements of a floating type.
double norm_of(DType dtype, const void* values, std::size_t count) noexcept;

/// True if all elements of a floating type are finite.
bool all_finite(DType dtype, const void* values, std::size_t count) noexcept;

}  // namespace ronde
