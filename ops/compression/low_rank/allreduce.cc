#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/clock.h"
#include "ops/algorithms.h"
#include "ops/compression/compressed_allreduce.h"
#include "ops/compression/low_rank/factors.h"

namespace ronde {
namespace {

/// One piece: elements before its whole rows, the rows, elements after them.
struct Rows {
  const CompressedPiece& piece;
  const CompressedTensor& tensor;
  LowRankShape shape = {};
  std::size_t head = 0;  // elements before the matrix; all without a matrix
  bool is_matrix = false;
  float* values = nullptr;  // first the input, then the residual
  std::vector<float> q, q_mine;
  std::size_t p_at = 0, q_at = 0;  // places in the sums

  [[nodiscard]] std::size_t matrix_count() const {
    return is_matrix ? shape.rows * shape.columns : 0;
  }
  [[nodiscard]] std::size_t p_count() const { return is_matrix ? shape.rows * shape.rank : 0; }
  [[nodiscard]] std::size_t q_count() const { return is_matrix ? shape.columns * shape.rank : 0; }
  [[nodiscard]] std::size_t rest() const { return piece.count - matrix_count(); }
  [[nodiscard]] const float* matrix() const { return values + head; }
};

/// Votes on the Q that ranks begin with: each gives 1, and some small numbers and their squares.
/// All agree if every sum of squares times the voters is the square of the sum.
class Votes {
 public:
  static constexpr std::size_t kCount = 9;

  static std::array<float, kCount> of(std::uint64_t hash) {
    std::array<float, kCount> votes{1.0F};
    for (std::size_t i = 0; i < 4; ++i, hash >>= 6) {
      const auto digit = static_cast<float>(hash & 63U);
      votes[1 + 2 * i] = digit;
      votes[2 + 2 * i] = digit * digit;
    }
    return votes;
  }

  static bool agree(const float* sums) {
    for (std::size_t i = 1; i < kCount; i += 2) {
      const double sum = sums[i], squares = sums[i + 1], voters = sums[0];
      if (voters * squares != sum * sum) return false;
    }
    return true;
  }
};

class LowRankReduce {
 public:
  LowRankReduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch)
      : transport_(transport),
        work_(work),
        spec_(work.compression.scheme().spec),
        scratch_(scratch) {}

  Status run() {
    stage();
    RONDE_RETURN_IF_ERROR(sum_first());
    if (!Votes::agree(first_.data())) {
      for (Rows& rows : rows_) begin_anew(rows);
      RONDE_RETURN_IF_ERROR(sum_first());
    }
    RONDE_RETURN_IF_ERROR(sum_second());
    for (Rows& rows : rows_) deliver(rows);
    return {};
  }

 private:
  void stage();
  Rows rows_of(const CompressedPiece& piece, float* values) const;
  void load(Rows& rows);
  void begin_anew(Rows& rows) const;
  [[nodiscard]] std::uint64_t hash() const;
  Status sum_first();
  Status sum_second();
  Status sum(std::vector<float>& values);
  void deliver(Rows& rows);
  void deliver_rest(const Rows& rows);
  void keep_basis(const Rows& rows);
  void write(const Rows& rows, std::size_t begin, const float* values, std::size_t count);

  Transport& transport_;
  const CompressedAllreduce& work_;
  const CompressionSpec& spec_;
  Scratch& scratch_;
  Scratch inner_;  // for the sums
  std::vector<Rows> rows_;
  std::vector<float> first_, second_;
  std::byte* wide_ = nullptr;  // a piece between its type and fp32
  bool has_data_ = false;      // false if this rank has joined
};

Rows LowRankReduce::rows_of(const CompressedPiece& piece, float* values) const {
  const CompressedTensor& tensor = work_.compression.tensors()[piece.tensor];
  Rows rows{.piece = piece, .tensor = tensor, .values = values, .q = {}, .q_mine = {}};
  const std::size_t columns = tensor.columns;
  rows.head = piece.count;
  if (columns == 0) return rows;
  const std::size_t first = (piece.begin + columns - 1) / columns;
  const std::size_t end = (piece.begin + piece.count) / columns;
  rows.shape = {end > first ? end - first : 0, columns, spec_.rank};
  rows.is_matrix = rows.shape.saves();
  if (rows.is_matrix) rows.head = first * columns - piece.begin;
  return rows;
}

void LowRankReduce::stage() {
  const std::size_t all = count_elements(work_.pieces);
  float* values = work_.left != nullptr
                      ? work_.left
                      : reinterpret_cast<float*>(scratch_.block(1, all * sizeof(float)));
  std::size_t most = 0;
  for (const CompressedPiece& piece : work_.pieces) most = std::max(most, piece.count);
  wide_ = scratch_.block(2, most * sizeof(double));
  std::size_t p = Votes::kCount, q = 0;
  for (const CompressedPiece& piece : work_.pieces) {
    Rows& rows = rows_.emplace_back(rows_of(piece, values));
    load(rows);
    rows.p_at = p;
    rows.q_at = q;
    p += rows.p_count() + rows.rest();
    q += rows.q_count();
    values += piece.count;
  }
  first_.resize(p);
  second_.resize(q);
}

void LowRankReduce::load(Rows& rows) {
  const std::span<float> values{rows.values, rows.piece.count};
  load_piece(work_, rows.piece, 0, values, wide_);
  if (rows.piece.in != nullptr) has_data_ = true;
  if (rows.tensor.residual) rows.tensor.residual->add_to(values, rows.piece.begin);
  if (!rows.is_matrix) return;
  rows.q.assign(rows.q_count(), 0.0F);
  rows.q_mine.resize(rows.q_count());
  if (rows.tensor.basis) rows.tensor.basis->add_to(rows.q, 0);
  seed_columns(rows.shape, spec_.seed, rows.q.data());
}

void LowRankReduce::begin_anew(Rows& rows) const {
  std::fill(rows.q.begin(), rows.q.end(), 0.0F);
  seed_columns(rows.shape, spec_.seed, rows.q.data());
}

/// A hash of the Q that this rank begins with: FNV-1a over 32 bits at a time.
std::uint64_t LowRankReduce::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const Rows& rows : rows_) {
    for (const float value : rows.q) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3ULL;
    }
  }
  return (hash ^ (hash >> 29)) * 0xff51afd7ed558ccdULL >> 32;
}

Status LowRankReduce::sum(std::vector<float>& values) {
  auto* data = reinterpret_cast<std::byte*>(values.data());
  const FlatWork work{.kernels = work_.kernels,
                      .abort = work_.abort,
                      .reduction = {DType::kFloat32, ReduceOp::kSum, {}},
                      .in = data,
                      .out = data,
                      .bytes = values.size() * sizeof(float)};
  return direct_allreduce(transport_, work, inner_);
}

Status LowRankReduce::sum_first() {
  const auto votes = has_data_ ? Votes::of(hash()) : std::array<float, Votes::kCount>{};
  std::copy(votes.begin(), votes.end(), first_.begin());
  for (const Rows& rows : rows_) {
    float* to = first_.data() + rows.p_at;
    if (rows.is_matrix) project(rows.shape, rows.matrix(), rows.q.data(), to);
    to = std::copy_n(rows.values, rows.head, to + rows.p_count());
    const float* end = rows.values + rows.piece.count;
    std::copy(rows.matrix() + rows.matrix_count(), end, to);
  }
  return sum(first_);
}

Status LowRankReduce::sum_second() {
  for (Rows& rows : rows_) {
    if (!rows.is_matrix) continue;
    float* p = first_.data() + rows.p_at;
    orthogonalise(rows.shape, p);
    project_back(rows.shape, rows.matrix(), p, rows.q_mine.data());
    std::copy(rows.q_mine.begin(), rows.q_mine.end(),
              second_.begin() + static_cast<std::ptrdiff_t>(rows.q_at));
  }
  return second_.empty() ? Status() : sum(second_);
}

void LowRankReduce::deliver(Rows& rows) {
  const Stopwatch decoding(&work_.compression.facts().decompress_ns);
  const float* p = first_.data() + rows.p_at;
  const float* q = second_.data() + rows.q_at;
  std::vector<float> row(rows.is_matrix ? rows.shape.columns : 0);
  for (std::size_t i = 0; rows.is_matrix && i < rows.shape.rows; ++i) {
    const std::size_t begin = rows.head + i * rows.shape.columns;
    expand_row(rows.shape, p, i, q, row.data());
    write(rows, begin, row.data(), row.size());
    subtract_row(rows.shape, p, i, rows.q_mine.data(), rows.values + begin);
  }
  deliver_rest(rows);
  keep_basis(rows);
  work_.compression.leave(rows.piece.tensor, rows.piece.begin, {rows.values, rows.piece.count});
}

/// Clears the residual of elements that travelled as they are.
void LowRankReduce::deliver_rest(const Rows& rows) {
  const float* from = first_.data() + rows.p_at + rows.p_count();
  const std::size_t tail = rows.head + rows.matrix_count();
  write(rows, 0, from, rows.head);
  write(rows, tail, from + rows.head, rows.piece.count - tail);
  std::fill_n(rows.values, rows.head, 0.0F);
  std::fill(rows.values + tail, rows.values + rows.piece.count, 0.0F);
}

void LowRankReduce::keep_basis(const Rows& rows) {
  if (!rows.is_matrix || !rows.tensor.basis) return;
  const std::span<const float> q{second_.data() + rows.q_at, rows.q_count()};
  if (all_finite(DType::kFloat32, q.data(), q.size())) rows.tensor.basis->assign(q, 0);
}

void LowRankReduce::write(const Rows& rows, std::size_t begin, const float* values,
                          std::size_t count) {
  if (rows.piece.out == nullptr || count == 0) return;
  std::byte* to = rows.piece.out + begin * size_of(work_.out_dtype);
  if (work_.out_dtype == DType::kFloat32) {
    std::memcpy(to, values, count * sizeof(float));
  } else {
    work_.kernels.cast(DType::kFloat32, values, work_.out_dtype, to, count);
  }
}

}  // namespace

Status low_rank_allreduce(Transport& transport, const CompressedAllreduce& work, Scratch& scratch) {
  return LowRankReduce(transport, work, scratch).run();
}

}  // namespace ronde
