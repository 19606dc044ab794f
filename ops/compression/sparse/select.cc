#include "ops/compression/sparse/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression/sparse/select.cc"
#include <hwy/foreach_target.h>

#include "ops/compression/codecs/group_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ronde::compression::HWY_NAMESPACE {

/// Writes the indices of the values whose magnitude, as bits, is at least `bits`; returns how many.
/// `to` has room for all and one group more.
std::size_t reach_here(const float* values, std::size_t count, std::uint32_t bits,
                       std::uint32_t* to) {
  const DI di;
  const DU du;
  const VI magnitude = hn::Set(di, 0x7fffffff);
  const VI least = hn::Set(di, static_cast<std::int32_t>(bits) - 1);
  std::size_t found = 0;
  const std::size_t whole = count / kGroup * kGroup;
  for (std::size_t i = 0; i < whole; i += hn::Lanes(di)) {
    const V v = load_unaligned(D(), values + i);
    const auto mask = hn::Gt(hn::And(hn::BitCast(di, v), magnitude), least);
    if (hn::AllFalse(di, mask)) continue;
    const auto index = hn::Iota(du, static_cast<std::uint32_t>(i));
    found += hn::CompressStore(index, hn::RebindMask(du, mask), du, to + found);
  }
  for (std::size_t i = whole; i < count; ++i) {
    std::uint32_t here;
    std::memcpy(&here, values + i, sizeof here);
    to[found] = static_cast<std::uint32_t>(i);
    found += (here & 0x7fffffffU) >= bits ? 1 : 0;
  }
  return found;
}

}  // namespace ronde::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ronde {
namespace compression {
HWY_EXPORT(reach_here);
}  // namespace compression
namespace {

constexpr std::size_t kFewest = 4096;  // a smaller sample says too little
constexpr std::size_t kChunk = std::size_t{1} << 16;

std::uint32_t magnitude_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & 0x7fffffffU;
}

/// The magnitude, as bits, that `rank` elements of a sample of `size` reach; at least 1.
std::uint32_t sampled_threshold(std::span<const float> values, std::size_t size, std::size_t rank) {
  std::vector<std::uint32_t> sample(size);
  std::uint64_t random = values.size();
  for (std::size_t i = 0; i < size; ++i) {  // one element at a random place of each stretch
    const std::size_t begin = i * values.size() / size;
    const std::size_t length = (i + 1) * values.size() / size - begin;
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    sample[i] = magnitude_bits(values[begin + (random >> 33) % length]);
  }
  if (rank >= size) return 1;
  const auto at = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample.begin(), at, sample.end(), std::greater<>());
  return std::max(1U, *at);
}

/// The indices of the values that reach a magnitude.
void reach(std::span<const float> values, std::uint32_t bits, std::vector<std::uint32_t>& indices) {
  using namespace compression;
  indices.clear();
  std::vector<std::uint32_t> found(kChunk + 64);
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const std::size_t count = std::min(kChunk, values.size() - begin);
    const std::size_t n =
        HWY_DYNAMIC_DISPATCH(reach_here)(values.data() + begin, count, bits, found.data());
    for (std::size_t i = 0; i < n; ++i) {
      indices.push_back(found[i] + static_cast<std::uint32_t>(begin));
    }
  }
}

/// Orders by magnitude, the largest first; then by index.
std::uint64_t rank_key(std::span<const float> values, std::uint32_t index) {
  return (static_cast<std::uint64_t>(~magnitude_bits(values[index])) << 32) | index;
}

/// Keeps the k that come first by rank_key(), in their order.
void keep_first(std::span<const float> values, std::size_t k, std::vector<std::uint32_t>& indices) {
  if (indices.size() <= k) return;
  if (k == 0) return indices.clear();
  std::vector<std::uint64_t> keys(indices.size());
  std::transform(indices.begin(), indices.end(), keys.begin(),
                 [&](std::uint32_t index) { return rank_key(values, index); });
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), last, keys.end());
  const std::uint64_t most = *last;
  std::erase_if(indices, [&](std::uint32_t index) { return rank_key(values, index) > most; });
}

std::size_t sample_size(std::size_t count) { return std::max(kFewest, count / 100); }

}  // namespace

void select_top(std::span<const float> values, std::size_t k, std::vector<std::uint32_t>& indices) {
  const std::size_t size = sample_size(values.size());
  std::uint32_t bits = 1;
  if (values.size() > 4 * kFewest) {
    // Low enough that fewer than k elements reach it once in some thousand times.
    const double share =
        static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(values.size());
    const double rank = 1.05 * share + 3.5 * std::sqrt(share) + 2;
    bits = sampled_threshold(values, size, static_cast<std::size_t>(rank));
  }
  reach(values, bits, indices);
  if (indices.size() < k && bits > 1) reach(values, 1, indices);
  keep_first(values, k, indices);
}

void select_sampled(std::span<const float> values, std::size_t k,
                    std::vector<std::uint32_t>& indices) {
  const std::size_t size = sample_size(values.size());
  if (values.size() <= 4 * kFewest) return select_top(values, k, indices);
  reach(values, sampled_threshold(values, size, k * size / values.size()), indices);
  keep_first(values, k, indices);
}

}  // namespace ronde
#endif
