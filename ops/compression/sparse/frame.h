// Some elements of a vector as bytes: their indices, and their values in fp32. The encoder takes
// the shortest form; the first byte of a frame says which.
//
// Format, numbers little-endian, of n elements out of `count`:
//   0     uint8   form: 0 gaps, 1 bitmap, 2 dense, 3 drawn
//   1     uint32  n
// gaps:
//   5     n numbers, each as 7 bits in a byte from the lowest on, bit 7 set if more follow: the
//         first index, then how many indices lie between one and the next
//   ...   fp32[n]
// bitmap:
//   5     (count + 7) / 8 bytes, element i in bit i % 8 of byte i / 8; unused bits are 0
//   ...   fp32[n]
// dense: n is count
//   5     fp32[count]
// drawn: the indices follow from n, count and key: see Draw
//   5     uint64  key
//   13    fp32[n]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// Elements of a vector, by ascending index. `drawn`: the indices are those of Draw for `key`.
struct SparseVector {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  bool drawn = false;
  std::uint64_t key = 0;
};

/// Draws n of count elements at random: the i-th is one of [i * count / n, (i + 1) * count / n).
/// All have the same probability, but for rounding.
class Draw {
 public:
  Draw(std::size_t count, std::size_t n, std::uint64_t key) noexcept
      : count_(count), n_(n), key_(key) {}
  /// The i-th index.
  [[nodiscard]] std::size_t index(std::size_t i) const noexcept;
  /// How many elements the i-th was drawn from.
  [[nodiscard]] std::size_t choices(std::size_t i) const noexcept {
    return begin(i + 1) - begin(i);
  }

 private:
  [[nodiscard]] std::size_t begin(std::size_t i) const noexcept { return i * count_ / n_; }
  std::size_t count_;
  std::size_t n_;
  std::uint64_t key_;
};

/// Appends a vector of `count` elements (below 2^32) to `frame`.
void encode_sparse(const SparseVector& vector, std::size_t count, std::vector<std::byte>& frame);

/// Takes one frame of a vector of `count` elements from the beginning of `bytes`.
/// Errors: kInvalidArgument, naming the fault, for bytes that are no such frame.
Status decode_sparse(std::span<const std::byte>& bytes, std::size_t count, SparseVector& vector);

}  // namespace ronde
