// Partial results of a reduction that passes through several ranks: how they are represented on the
// wire, begun, combined and finished. 8- and 16-bit floating types travel as fp32 and are rounded
// once; averages of 8- and 16-bit integers travel as int32, those of 32-bit ones as int64, so that
// no sum overflows.
#pragma once

#include <cstddef>

#include "core/ports/reduce_kernels.h"

namespace ronde {

/// The arithmetic of one reduction over partials. A partial of `count` elements has
/// count * width() bytes. Threads: any; keeps no state but its arguments.
class PartialReduction {
 public:
  PartialReduction(const Reduction& what, const ReduceKernels& kernels) noexcept;

  /// Bytes of one element of a partial.
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  /// Bytes of one element of the tensor.
  [[nodiscard]] std::size_t element() const noexcept { return size_of(what_.dtype); }
  /// The type of a partial's elements.
  [[nodiscard]] DType dtype() const noexcept { return plain_.dtype; }
  /// True if an input is a partial, bit for bit: load() then is a copy.
  [[nodiscard]] bool raw_is_partial() const noexcept { return raw_; }

  /// The reduction of partials to a partial.
  [[nodiscard]] Reduction sums() const noexcept { return plain_; }
  /// The reduction of the last partials to the result, where width() is element().
  [[nodiscard]] Reduction last_sums() const noexcept {
    Reduction last = plain_;
    last.scaling.post = what_.scaling.post;
    return last;
  }

  /// partial = pre * in
  void load(const void* in, void* partial, std::size_t count) const noexcept;
  /// out = partial op pre * in; `out` may equal `partial`.
  void fold(const void* partial, const void* in, void* out, std::size_t count) const noexcept;
  /// out = a op b, all partials; `out` may equal either.
  void merge(const void* a, const void* b, void* out, std::size_t count) const noexcept;
  /// out = post * partial, rounded to the tensor's type; `out` may equal `partial` where width()
  /// is element().
  void finish(const void* partial, void* out, std::size_t count) const noexcept;
  /// fold and finish in one pass where that is possible; `partial` may be changed.
  void finish_fold(void* partial, const void* in, void* out, std::size_t count) const noexcept;

 private:
  void narrow(const void* partial, void* out, std::size_t count) const noexcept;

  Reduction what_;
  Reduction plain_;  // of partials: their type, no scaling
  const ReduceKernels& kernels_;
  std::size_t width_;
  bool wide_;  // partials have another type than the tensor
  bool raw_;
};

}  // namespace ronde
