// The owners of the elements of a sparse allreduce. Each rank owns one run of 64 indices in each
// row of `ranks` runs; the order changes from row to row. Large gradients stand together. So each
// rank owns as many of them as the others, without communication.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ronde {

/// Maps indices to owners and back. Threads: any; a value.
class Interleave {
 public:
  static constexpr std::size_t kRun = 64;  ///< Elements.

  /// `turn`: shifts the owners, so that the first runs of tensors go to different ranks.
  constexpr Interleave(std::size_t count, std::size_t ranks, std::size_t turn) noexcept
      : count_(count), ranks_(ranks), turn_(turn % ranks) {}

  struct Place {
    std::size_t owner = 0;
    std::size_t local = 0;  ///< Among the elements of its owner, ascending with the index.
  };

  [[nodiscard]] constexpr Place place(std::size_t index) const noexcept {
    const std::size_t run = index / kRun;
    const std::size_t row = run / ranks_;
    return {(run % ranks_ + ranks_ - shift(row)) % ranks_, row * kRun + index % kRun};
  }

  /// The index of an owner's element. `local` is below owned().
  [[nodiscard]] constexpr std::size_t index(std::size_t owner, std::size_t local) const noexcept {
    const std::size_t row = local / kRun;
    return (row * ranks_ + (owner + shift(row)) % ranks_) * kRun + local % kRun;
  }

  /// How many elements a rank owns.
  [[nodiscard]] constexpr std::size_t owned(std::size_t owner) const noexcept {
    const std::size_t rows = count_ / (kRun * ranks_);
    const std::size_t begin = (rows * ranks_ + (owner + shift(rows)) % ranks_) * kRun;
    return rows * kRun + (begin < count_ ? std::min(kRun, count_ - begin) : 0);
  }

 private:
  [[nodiscard]] constexpr std::size_t shift(std::size_t row) const noexcept {
    const std::uint64_t mixed = (row + 1) * 0x9e3779b97f4a7c15ULL;
    return (static_cast<std::size_t>(mixed >> 40) + turn_) % ranks_;
  }

  std::size_t count_;
  std::size_t ranks_;
  std::size_t turn_;
};

}  // namespace ronde
