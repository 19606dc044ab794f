// The kernels of a rank whose sums are checked by samples (sum_check.h), or made wrong by a drill.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// This rank's memory of some elements of a tensor.
struct OwnElements {
  const std::byte* in = nullptr;   ///< Null: it puts in zeros.
  const std::byte* out = nullptr;  ///< Null: it gets no result.
  std::size_t bytes = 0;
};

/// The index of the first of `count` elements of `out` that is not what `inputs` give; `count` if
/// there is none. Sums and averages of floating types may be off by what rounding explains, in any
/// order of the inputs; everything else is exact. Products of floating types are not defined here.
std::size_t first_wrong(const ReduceKernels& kernels, const Reduction& what,
                        std::span<const void* const> inputs, const void* out, std::size_t count);

/// Passes calls on to other kernels. Those that read or write elements that it watches are computed
/// once more. Calls on copies of the elements, and accumulate_fp32(), go by unseen. Threads: any.
class SumWitness final : public ReduceKernels {
 public:
  explicit SumWitness(std::shared_ptr<const ReduceKernels> kernels)
      : kernels_(std::move(kernels)) {}

  /// Looks at these elements until forget().
  void watch(const OwnElements& elements) RONDE_EXCLUDES(mutex_);
  /// True if this rank has computed one of them wrong.
  bool forget(const OwnElements& elements) RONDE_EXCLUDES(mutex_);

  /// Computes these elements wrong until heal().
  void spoil(const OwnElements& elements) RONDE_EXCLUDES(mutex_);
  /// True if one was computed.
  bool heal(const OwnElements& elements) RONDE_EXCLUDES(mutex_);

  void reduce(const Reduction& what, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override;
  void reduce_streaming(const Reduction& what, std::span<const void* const> inputs, void* out,
                        std::size_t count) const noexcept override;
  void accumulate_fp32(const Reduction& what, const float* partial, const void* input, float* out,
                       std::size_t count) const noexcept override {
    kernels_->accumulate_fp32(what, partial, input, out, count);
  }
  void cast(DType from, const void* in, DType to, void* out,
            std::size_t count) const noexcept override {
    kernels_->cast(from, in, to, out, count);
  }
  [[nodiscard]] std::size_t first_nonfinite(DType dtype, const void* data, std::size_t count,
                                            bool only_nan) const noexcept override {
    return kernels_->first_nonfinite(dtype, data, count, only_nan);
  }

 private:
  struct Marked {
    OwnElements elements;
    bool spoils = false;
    bool seen = false;  ///< Spoilt, or found wrong.
  };
  using Marks = std::vector<Marked>;

  void mark(const OwnElements& elements, bool spoils) RONDE_EXCLUDES(mutex_);
  bool unmark(const OwnElements& elements, bool spoils) RONDE_EXCLUDES(mutex_);
  void look(const Reduction& what, std::span<const std::vector<std::byte>> inputs, std::byte* out,
            std::size_t bytes, Marked& marked) const;
  template <typename Compute>
  void compute(const Reduction& what, std::span<const void* const> inputs, void* out,
               std::size_t count, Compute compute) const;

  const std::shared_ptr<const ReduceKernels> kernels_;
  std::atomic<bool> any_ = false;  // marks; asked without the lock
  mutable Mutex mutex_;
  mutable Marks marks_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
