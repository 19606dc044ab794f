#include "ops/compression/sparse/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace ronde {
namespace {

enum class Form : std::uint8_t { kGaps, kBitmap, kDense, kDrawn };
constexpr std::size_t kHeader = 5;

template <typename T>
void append(std::vector<std::byte>& frame, const T* values, std::size_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  frame.insert(frame.end(), bytes, bytes + count * sizeof(T));
}

void append_number(std::vector<std::byte>& frame, std::uint32_t number) {
  for (; number >= 0x80; number >>= 7) frame.push_back(static_cast<std::byte>(number | 0x80U));
  frame.push_back(static_cast<std::byte>(number));
}

std::size_t number_bytes(std::uint32_t number) {
  return (static_cast<std::size_t>(std::bit_width(number | 1U)) + 6) / 7;
}

template <class Each>
void for_gaps(const std::vector<std::uint32_t>& indices, const Each& each) {
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    each(index - next);
    next = index + 1;
  }
}

Form shortest(const SparseVector& vector, std::size_t count) {
  if (vector.drawn) return Form::kDrawn;
  const std::size_t n = vector.indices.size();
  std::size_t gaps = n * sizeof(float);
  for_gaps(vector.indices, [&](std::uint32_t gap) { gaps += number_bytes(gap); });
  const std::size_t bitmap = n * sizeof(float) + (count + 7) / 8;
  const std::size_t dense = count * sizeof(float);
  if (dense <= std::min(gaps, bitmap)) return Form::kDense;
  return gaps <= bitmap ? Form::kGaps : Form::kBitmap;
}

void append_bitmap(const SparseVector& vector, std::size_t count, std::vector<std::byte>& frame) {
  const std::size_t begin = frame.size();
  frame.resize(begin + (count + 7) / 8);
  for (const std::uint32_t index : vector.indices) {
    frame[begin + index / 8] |= static_cast<std::byte>(1U << index % 8);
  }
}

void append_dense(const SparseVector& vector, std::size_t count, std::vector<std::byte>& frame) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < vector.indices.size(); ++i) {
    all[vector.indices[i]] = vector.values[i];
  }
  append(frame, all.data(), count);
}

Status broken(std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("a broken frame of sparse elements: {}", why)};
}

/// Takes bytes from the front: all that are asked for, or none.
class Reader {
 public:
  explicit Reader(std::span<const std::byte>& bytes) : bytes_(bytes) {}

  template <typename T>
  bool take(T* to, std::size_t count) {
    if (bytes_.size() / sizeof(T) < count) return false;
    if (count > 0) std::memcpy(to, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
    return true;
  }

  bool take_number(std::uint64_t& number) {
    number = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      std::uint8_t byte = 0;
      if (!take(&byte, 1)) return false;
      number |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) return true;
    }
    return false;
  }

  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte>& bytes_;
};

Status take_values(Reader& reader, SparseVector& vector) {
  vector.values.resize(vector.indices.size());
  if (reader.take(vector.values.data(), vector.values.size())) return {};
  return broken("it ends within its values");
}

Status take_gaps(Reader& reader, std::size_t n, std::size_t count, SparseVector& vector) {
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t gap = 0;
    if (!reader.take_number(gap)) return broken("it ends within its indices");
    next += gap;
    if (next >= count) return broken(fmt::format("index {} of {} elements", next, count));
    vector.indices.push_back(static_cast<std::uint32_t>(next++));
  }
  return take_values(reader, vector);
}

Status take_bitmap(Reader& reader, std::size_t n, std::size_t count, SparseVector& vector) {
  std::vector<std::uint8_t> bits((count + 7) / 8);
  if (!reader.take(bits.data(), bits.size())) return broken("it ends within its bitmap");
  for (std::size_t i = 0; i < bits.size() * 8; ++i) {
    if ((static_cast<unsigned>(bits[i / 8]) >> i % 8 & 1U) == 0) continue;
    if (i >= count) return broken("its bitmap has bits beyond the end");
    vector.indices.push_back(static_cast<std::uint32_t>(i));
  }
  if (vector.indices.size() != n) {
    return broken(fmt::format("{} bits for {} elements", vector.indices.size(), n));
  }
  return take_values(reader, vector);
}

Status take_dense(Reader& reader, std::size_t n, std::size_t count, SparseVector& vector) {
  if (n != count) return broken(fmt::format("{} dense elements of {}", n, count));
  vector.indices.resize(n);
  std::iota(vector.indices.begin(), vector.indices.end(), 0U);
  return take_values(reader, vector);
}

Status take_drawn(Reader& reader, std::size_t n, std::size_t count, SparseVector& vector) {
  vector.drawn = true;
  if (!reader.take(&vector.key, 1)) return broken("it ends within its key");
  const Draw draw(count, n, vector.key);
  for (std::size_t i = 0; i < n; ++i) {
    vector.indices.push_back(static_cast<std::uint32_t>(draw.index(i)));
  }
  return take_values(reader, vector);
}

}  // namespace

std::size_t Draw::index(std::size_t i) const noexcept {
  std::uint64_t mixed = (key_ ^ (i + 1)) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 32)) * 0xff51afd7ed558ccdULL;
  mixed = (mixed ^ (mixed >> 29)) * 0xc4ceb9fe1a85ec53ULL;
  return begin(i) + (mixed >> 32) % choices(i);
}

void encode_sparse(const SparseVector& vector, std::size_t count, std::vector<std::byte>& frame) {
  const Form form = shortest(vector, count);
  const auto n = static_cast<std::uint32_t>(form == Form::kDense ? count : vector.indices.size());
  append(frame, &form, 1);
  append(frame, &n, 1);
  if (form == Form::kDense) return append_dense(vector, count, frame);
  if (form == Form::kGaps) {
    for_gaps(vector.indices, [&](std::uint32_t gap) { append_number(frame, gap); });
  }
  if (form == Form::kBitmap) append_bitmap(vector, count, frame);
  if (form == Form::kDrawn) append(frame, &vector.key, 1);
  append(frame, vector.values.data(), vector.values.size());
}

Status decode_sparse(std::span<const std::byte>& bytes, std::size_t count, SparseVector& vector) {
  vector.indices.clear();
  vector.drawn = false;
  Reader reader(bytes);
  std::uint8_t form = 0;
  std::uint32_t n = 0;
  if (!reader.take(&form, 1) || !reader.take(&n, 1)) {
    return broken(fmt::format("{} bytes are no header of {}", bytes.size(), kHeader));
  }
  if (n > count) return broken(fmt::format("{} of {} elements", n, count));
  if (reader.left() / sizeof(float) < n) return broken("it ends within its values");
  switch (static_cast<Form>(form)) {
    case Form::kGaps:
      return take_gaps(reader, n, count, vector);
    case Form::kBitmap:
      return take_bitmap(reader, n, count, vector);
    case Form::kDense:
      return take_dense(reader, n, count, vector);
    case Form::kDrawn:
      return take_drawn(reader, n, count, vector);
    default:
      return broken(fmt::format("form {}; allowed: 0 to 3", form));
  }
}

}  // namespace ronde
