#include "ops/sparse/choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ronde {
namespace {

/// Spreads indices evenly over 63 bits. Source: the finalizer of Steele, Lea, Flood, "Fast
/// splittable pseudorandom number generators", 2014.
std::int64_t index_hash(std::int64_t index) noexcept {
  auto bits = static_cast<std::uint64_t>(index) + 0x9E3779B97F4A7C15ULL;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBULL;
  return static_cast<std::int64_t>((bits ^ (bits >> 31U)) >> 1U);
}

}  // namespace

double sparse_cost(SparsePath path, const SparseLoad& load) noexcept {
  constexpr double kRound = 32 << 10;  // bytes that move in the time of an exchange of numbers
  constexpr double kSum = 0.25;        // the time of adding up a byte, in that of moving it
  const double ranks = static_cast<double>(load.ranks);
  const double others = (ranks - 1) / ranks;
  const double row = static_cast<double>(load.row_bytes) + sizeof(std::int64_t);
  const double all = static_cast<double>(load.rows) * row;
  if (path == SparsePath::kAllgather) return all * (others + kSum);
  if (path == SparsePath::kKeys) {
    const double gathered = static_cast<double>(load.union_rows) * row * others;
    return all / ranks * (others + kSum) + gathered + 3 * kRound;
  }
  const double table = static_cast<double>(load.table_rows) *
                       (static_cast<double>(load.row_bytes) + 1);  // a byte says if it is there
  return table * (2 * others + kSum) + 2 * kRound;
}

SparsePath choose_sparse_path(const SparseLoad& load) noexcept {
  SparsePath best = SparsePath::kAllgather;
  for (const SparsePath path : {SparsePath::kKeys, SparsePath::kTable}) {
    if (path == SparsePath::kTable && load.table_rows < 0) continue;
    if (sparse_cost(path, load) < sparse_cost(best, load)) best = path;
  }
  return best;
}

IndexSample IndexSample::of(const RowSums& rows) {
  IndexSample sample;
  const std::size_t count = rows.count();
  sample.count = static_cast<std::int64_t>(count);
  if (count == 0) return sample;
  std::vector<std::int64_t> hashes(count);
  for (std::size_t i = 0; i < count; ++i) hashes[i] = index_hash(rows.index(i));
  std::partial_sort_copy(hashes.begin(), hashes.end(), sample.smallest_hashes.begin(),
                         sample.smallest_hashes.end());
  for (std::size_t i = 0; i < kSize; ++i) {
    sample.quantiles[i] = rows.index((2 * i + 1) * count / (2 * kSize));
  }
  return sample;
}

std::size_t estimate_union(std::span<const IndexSample> samples) {
  // Every rank tells all of its hashes up to here.
  std::int64_t known = std::numeric_limits<std::int64_t>::max();
  std::size_t rows = 0, most = 0;
  for (const IndexSample& sample : samples) {
    const auto count = static_cast<std::size_t>(sample.count);
    if (count > IndexSample::kSize) known = std::min(known, sample.smallest_hashes.back());
    rows += count;
    most = std::max(most, count);
  }
  std::vector<std::int64_t> hashes;
  for (const IndexSample& sample : samples) {
    const std::size_t has = std::min(static_cast<std::size_t>(sample.count), IndexSample::kSize);
    for (const std::int64_t hash : std::span(sample.smallest_hashes).first(has)) {
      if (hash <= known) hashes.push_back(hash);
    }
  }
  std::sort(hashes.begin(), hashes.end());
  const auto end = std::unique(hashes.begin(), hashes.end());
  const auto different = static_cast<double>(end - hashes.begin());
  const double share =
      static_cast<double>(known) / static_cast<double>(std::numeric_limits<std::int64_t>::max());
  return std::clamp(static_cast<std::size_t>(different / share), most, rows);
}

std::vector<std::int64_t> share_begins(std::span<const IndexSample> samples) {
  struct Weighted {
    std::int64_t index;
    std::int64_t rows;
  };
  std::vector<Weighted> all;
  std::int64_t total = 0;
  for (const IndexSample& sample : samples) {
    if (sample.count == 0) continue;
    for (const std::int64_t index : sample.quantiles) all.push_back({index, sample.count});
    total += sample.count * static_cast<std::int64_t>(IndexSample::kSize);
  }
  std::sort(all.begin(), all.end(),
            [](const Weighted& a, const Weighted& b) { return a.index < b.index; });
  const auto ranks = static_cast<std::int64_t>(samples.size());
  std::vector<std::int64_t> begins{0};
  std::int64_t before = 0;
  for (const Weighted& one : all) {
    const auto shares = static_cast<std::int64_t>(begins.size());
    if (shares < ranks && before >= total / ranks * shares) begins.push_back(one.index);
    before += one.rows;
  }
  begins.resize(samples.size(), std::numeric_limits<std::int64_t>::max());
  return begins;
}

}  // namespace ronde
