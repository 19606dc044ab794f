// One operation to measure: its sizes, its buffers on this rank, and the result that is due.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/collective.h"
#include "core/base/dtype.h"
#include "core/ports/backend.h"
#include "core/ports/executor.h"

namespace ronde::bench {

/// An operation to measure, the same on all ranks.
struct TrialSpec {
  Collective kind = Collective::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< Or kAverage or kAdasum, of floating types.
  std::size_t bytes =
      0;  ///< Size of the whole tensor; rounded so that all ranks' chunks are equal.
  int rank = 0;
  int size = 1;
  /// Gives memory for the buffers; plain memory where empty.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate = {};
};

/// A short sequence of elements that repeats: small whole numbers, so that results are exact in
/// every type (uint8 up to eleven ranks), or are rounded once (8-bit floating types).
class Pattern {
 public:
  /// The input of `rank`. For averages it is a multiple of the number of ranks. For Adasum only one
  /// rank has a number other than zero at each place: such tensors are added.
  static Pattern of_rank(const TrialSpec& spec, int rank);
  /// The result over all ranks; the sum of bool is "or".
  static Pattern of_result(const TrialSpec& spec);

  /// Writes elements `first`, first+1, ... to all of `to`.
  void fill(std::span<std::byte> to, std::size_t first) const;
  /// True if `data` holds elements `first`, first+1, ...
  [[nodiscard]] bool matches(std::span<const std::byte> data, std::size_t first) const;

 private:
  Pattern(const TrialSpec& spec, int first_rank, int last_rank, int divisor);

  std::size_t width_;
  std::vector<std::byte> twice_;  // two periods, so that one is contiguous from any phase
};

/// Memory of one tensor.
class Buffer {
 public:
  Buffer(const TrialSpec& spec, std::size_t bytes);
  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_.get(), bytes_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_.get(), bytes_}; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_;
};

/// Buffers and expectations of one operation. Rooted kinds have root 0. Threads: one at a time.
class Trial {
 public:
  explicit Trial(const TrialSpec& spec);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] const TrialSpec& spec() const noexcept { return spec_; }
  /// Bytes of the whole tensor, after rounding.
  [[nodiscard]] std::size_t bytes() const noexcept { return elements_ * width_; }
  /// Bus bandwidth over algorithm bandwidth.
  [[nodiscard]] double bus_factor() const noexcept;

  [[nodiscard]] std::span<const std::byte> in() const noexcept { return in_.bytes(); }
  [[nodiscard]] std::span<std::byte> out() noexcept { return out_.bytes(); }
  /// Shape of what this rank gives; for scatter of what it gets.
  [[nodiscard]] Shape shape() const;

  /// The operation as Ronde's executor takes it; views this trial.
  [[nodiscard]] Bundle bundle() const;
  /// The operation as a data plane takes it; views this trial.
  [[nodiscard]] Work work() const;

  /// Overwrites the output, so that old content cannot pass for a result.
  void spoil();
  /// True if the output is correct, or this rank has none.
  [[nodiscard]] bool correct() const;

 private:
  /// Elements given and received by this rank.
  [[nodiscard]] std::size_t in_elements() const noexcept;
  [[nodiscard]] std::size_t out_elements() const noexcept;
  [[nodiscard]] bool parts_match() const;
  /// The root of a broadcast: it only gives.
  [[nodiscard]] bool is_source() const noexcept;

  const TrialSpec spec_;
  const std::size_t width_;
  const std::size_t part_;      // elements of one rank's part
  const std::size_t elements_;  // of the whole tensor
  Buffer in_;
  Buffer out_;
  Segment segment_;
  std::vector<std::size_t> part_bytes_;
};

}  // namespace ronde::bench
