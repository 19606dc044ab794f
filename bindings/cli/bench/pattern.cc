#include "bindings/cli/bench/pattern.h"

#include <algorithm>
#include <cstring>

#include "core/base/small_float.h"

namespace ronde::bench {
namespace {

constexpr std::size_t kPeriod = 23;

int element(int rank, std::size_t index) {
  return 1 + static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % kPeriod);
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void encode(DType dtype, int value, std::byte* to) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      return store(to, static_cast<std::uint8_t>(value));
    case DType::kInt16:
      return store(to, static_cast<std::int16_t>(value));
    case DType::kInt32:
      return store(to, static_cast<std::int32_t>(value));
    case DType::kInt64:
      return store(to, static_cast<std::int64_t>(value));
    case DType::kFloat16:
      return store(to, float_to_float16(static_cast<float>(value)));
    case DType::kBfloat16:
      return store(to, float_to_bfloat16(static_cast<float>(value)));
    case DType::kFloat32:
      return store(to, static_cast<float>(value));
    case DType::kFloat64:
      return store(to, static_cast<double>(value));
    case DType::kBool:
      return store(to, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
    case DType::kFloat8E4m3:
      return store(to, float_to_float8_e4m3(static_cast<float>(value)));
    case DType::kFloat8E5m2:
      return store(to, float_to_float8_e5m2(static_cast<float>(value)));
  }
}

/// One rank's contribution to element `index`; bool alternates, others count, 8-bit floating types
/// as far as they are exact.
int contribution(DType dtype, int rank, std::size_t index) {
  const int value = element(rank, index);
  if (is_float8(dtype)) return value % 3;
  return dtype == DType::kBool ? value % 5 / 4 : value;
}

}  // namespace

Pattern::Pattern(DType dtype, int first_rank, int last_rank)
    : width_(size_of(dtype)), twice_(2 * kPeriod * width_) {
  for (std::size_t i = 0; i < 2 * kPeriod; ++i) {
    int sum = 0;
    for (int rank = first_rank; rank <= last_rank; ++rank) {
      sum += contribution(dtype, rank, i % kPeriod);
    }
    encode(dtype, sum, twice_.data() + i * width_);
  }
}

Pattern Pattern::of_rank(DType dtype, int rank) { return {dtype, rank, rank}; }

Pattern Pattern::of_sum(DType dtype, int ranks) { return {dtype, 0, ranks - 1}; }

void Pattern::fill(std::span<std::byte> to, std::size_t first) const {
  const std::byte* period = twice_.data() + first % kPeriod * width_;
  for (std::size_t done = 0; done < to.size(); done += kPeriod * width_) {
    std::memcpy(to.data() + done, period, std::min(kPeriod * width_, to.size() - done));
  }
}

bool Pattern::matches(std::span<const std::byte> data, std::size_t first) const {
  const std::byte* period = twice_.data() + first % kPeriod * width_;
  for (std::size_t done = 0; done < data.size(); done += kPeriod * width_) {
    const std::size_t bytes = std::min(kPeriod * width_, data.size() - done);
    if (std::memcmp(data.data() + done, period, bytes) != 0) return false;
  }
  return true;
}

}  // namespace ronde::bench
