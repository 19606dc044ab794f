// The arithmetic of Adasum on one slice of a tensor, whose inputs from all ranks are at hand.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "core/base/dtype.h"
#include "core/ports/reduce_kernels.h"
#include "ops/adasum/tree.h"
#include "ops/kernels/adasum.h"

namespace ronde {

/// float64 is computed with two doubles, other types in double. Sums over elements have two doubles
/// for all types, so that nodes of the tree may be small beside their inputs. Threads: one at a
/// time.
class AdasumSlice {
 public:
  /// `inputs` by rank, of `count` elements. All outlive it.
  AdasumSlice(const ReduceKernels& kernels, DType dtype, std::span<const std::byte* const> inputs,
              std::size_t count)
      : kernels_(kernels), dtype_(dtype), inputs_(inputs), count_(count) {}

  /// This slice's share of the dot products of a pair of nodes, whose ranks have `coefficients`.
  AdasumProducts products(const AdasumPair& pair, std::span<const DoubleDouble> coefficients);

  /// out = the sum of all inputs times their coefficients, rounded once. It overlaps no input.
  void combine(std::span<const DoubleDouble> coefficients, std::byte* out);

 private:
  static constexpr std::size_t kBlock = 1024;  // elements that stay in the cache
  /// Elements of a node of the tree: hi + lo.
  struct Values {
    alignas(64) std::array<double, kBlock> hi;
    alignas(64) std::array<double, kBlock> lo;
  };

  void load(std::size_t rank, std::size_t begin, std::size_t count, double* into) const;
  void evaluate(const AdasumNode& node, std::span<const DoubleDouble> coefficients,
                std::size_t begin, std::size_t count, Values& values);
  [[nodiscard]] kernels::WideNumbers numbers_of(Values& values) const noexcept {
    return {values.hi.data(), dtype_ == DType::kFloat64 ? values.lo.data() : nullptr};
  }

  const ReduceKernels& kernels_;
  const DType dtype_;
  const std::span<const std::byte* const> inputs_;
  const std::size_t count_;
  Values a_;
  Values b_;
  alignas(64) std::array<double, kBlock> input_;
};

}  // namespace ronde
