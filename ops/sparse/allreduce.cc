#include "ops/sparse/allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "core/ports/phases.h"

namespace ronde {
namespace {

enum SparseBlock : std::size_t { kSentBlock, kReceivedBlock, kSumsBlock };

enum class RowFault : std::int64_t { kNone, kCount, kRange };

/// A rank tells this of its rows before they move.
struct RowStatement {
  RowFault fault = RowFault::kNone;
  std::int64_t detail = 0;
  std::int64_t table_rows = -1;
  std::int64_t largest = -1;  ///< Index.
  std::int64_t repeats = 0;   ///< 1: rows of equal index are sent apart.
  IndexSample sample = {};
};
static_assert(sizeof(RowStatement) % sizeof(std::int64_t) == 0);
constexpr std::size_t kRowStatementNumbers = sizeof(RowStatement) / sizeof(std::int64_t);

std::span<const std::int64_t> row_indices_of(const BundleTensor& tensor) {
  return tensor.splits.empty() ? tensor.splits : tensor.splits.first(tensor.splits.size() - 1);
}

/// A rank that has joined gives no indices, not even the size of the table.
RowStatement judge_rows(const BundleTensor& tensor) {
  RowStatement said;
  if (tensor.splits.empty() && tensor.in == nullptr) return said;
  if (!tensor.splits.empty()) said.table_rows = std::max<std::int64_t>(tensor.splits.back(), -1);
  const auto indices = row_indices_of(tensor);
  if (static_cast<std::int64_t>(indices.size()) != tensor.shape[0]) {
    said.fault = RowFault::kCount;
    said.detail = static_cast<std::int64_t>(indices.size());
    said.sample.count = tensor.shape[0];
    return said;
  }
  const auto wrong = std::find_if(indices.begin(), indices.end(), [&](std::int64_t index) {
    return index < 0 || (said.table_rows >= 0 && index >= said.table_rows);
  });
  if (wrong != indices.end()) {
    said.fault = RowFault::kRange;
    said.detail = *wrong;
  }
  return said;
}

/// Narrow types and integers lose what a wide sum over all ranks keeps.
bool adds_own_first(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

/// Groups this rank's rows in `own`, if they are right.
RowStatement state_rows(const SparseWork& work, RowSums& own) {
  RowStatement mine = judge_rows(work.tensor);
  own.clear();
  if (mine.fault != RowFault::kNone) return mine;
  own.add(row_indices_of(work.tensor), static_cast<const std::byte*>(work.tensor.in),
          work.row_bytes());
  if (adds_own_first(work.shared.dtype)) {
    own.group();
  } else {
    own.keep_apart();
  }
  if (own.count() > 0) mine.largest = own.index(own.count() - 1);
  mine.repeats = own.has_repeats() ? 1 : 0;
  mine.sample = IndexSample::of(own);
  return mine;
}

/// The group is broken: other ranks wait for this one.
Status out_of_memory(const SparseWork& work) {
  return {Code::kAborted, fmt::format("out of memory in sparse_allreduce of {} rows",
                                      row_indices_of(work.tensor).size())};
}

Status explain_rows(std::size_t rank, const RowStatement& said) {
  if (said.fault == RowFault::kCount) {
    return {Code::kInvalidArgument, fmt::format("rank {} of the group gave {} indices for {} rows",
                                                rank, said.detail, said.sample.count)};
  }
  const std::string allowed = said.table_rows < 0   ? "0 and above"
                              : said.table_rows > 0 ? fmt::format("0 to {}", said.table_rows - 1)
                                                    : "none, as the tensor has no rows";
  return {Code::kInvalidArgument, fmt::format("rank {} of the group gave index {}; allowed: {}",
                                              rank, said.detail, allowed)};
}

/// The table's rows by all ranks' statements; -1: nobody knows them.
Result<std::int64_t> agree_on_table(std::span<const RowStatement> said) {
  std::int64_t table_rows = -1;
  std::size_t first = 0;  // that knows the table's size
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].fault != RowFault::kNone) return explain_rows(rank, said[rank]);
    if (said[rank].table_rows >= 0 && table_rows >= 0 && said[rank].table_rows != table_rows) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} of the group has a tensor of {} rows, rank {} one of {}",
                                first, table_rows, rank, said[rank].table_rows));
    }
    if (table_rows < 0) first = rank;
    table_rows = std::max(table_rows, said[rank].table_rows);
  }
  if (table_rows < 0) return table_rows;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {  // that may not have known the size
    if (said[rank].largest < table_rows) continue;
    return explain_rows(
        rank, {.fault = RowFault::kRange, .detail = said[rank].largest, .table_rows = table_rows});
  }
  return table_rows;
}

/// Bytes of a block of rows: their indices, then their values.
std::size_t row_block_bytes(std::size_t rows, std::size_t row_bytes) {
  constexpr std::size_t kBlockAlignment = 64;
  const std::size_t bytes = rows * (sizeof(std::int64_t) + row_bytes);
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

std::size_t sum_of_bytes(std::span<const std::size_t> values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

}  // namespace

Result<SparsePath> SparseAllreduce::plan(const SparseWork& work, const AbortToken& abort) {
  try {
    return choose(work, abort);
  } catch (const std::bad_alloc&) {
    return out_of_memory(work);
  }
}

Result<SparsePath> SparseAllreduce::choose(const SparseWork& work, const AbortToken& abort) {
  const RowStatement mine = state_rows(work, own_);
  numbers_.resize(kRowStatementNumbers);
  std::memcpy(numbers_.data(), &mine, sizeof(mine));
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(numbers_, abort));
  std::vector<RowStatement> said(size_);
  std::memcpy(static_cast<void*>(said.data()), all.data(), all.size_bytes());
  RONDE_ASSIGN_OR_RETURN(table_rows_, agree_on_table(said));
  samples_.clear();
  SparseLoad load{.ranks = size_, .table_rows = table_rows_, .row_bytes = work.row_bytes()};
  for (const RowStatement& one : said) {
    if (one.repeats != 0) load.table_rows = -1;
    load.rows += static_cast<std::size_t>(one.sample.count);
    samples_.push_back(one.sample);
  }
  load.union_rows = estimate_union(samples_);
  path_ = options_.path == SparsePath::kAuto ? choose_sparse_path(load) : options_.path;
  if (path_ == SparsePath::kTable && load.table_rows < 0) path_ = SparsePath::kKeys;
  return path_;
}

Status SparseAllreduce::run(const SparseWork& work, PhaseObserver* phases,
                            const AbortToken& abort) {
  try {
    return dispatch(work, phases, abort);
  } catch (const std::bad_alloc&) {
    return out_of_memory(work);
  }
}

Status SparseAllreduce::dispatch(const SparseWork& work, PhaseObserver* phases,
                                 const AbortToken& abort) {
  if (path_ == SparsePath::kAllgather) return by_allgather(work, phases, abort);
  if (path_ == SparsePath::kTable) return by_table(work, phases, abort);
  return by_keys(work, phases, abort);
}

/// Joins the ranks' chunks of chunk_bytes_.
Status SparseAllreduce::allgather(std::span<const Segment> segments, const AbortToken& abort) {
  Work moved;
  moved.kind = Collective::kAllgather;
  moved.reduction.dtype = DType::kUint8;
  moved.segments = segments;
  moved.chunk_bytes = chunk_bytes_;
  moved.bytes = total_bytes(moved);
  if (moved.bytes == 0) return {};
  return host_.run(moved, kNoStream, abort).in_tensor({});
}

Status SparseAllreduce::by_allgather(const SparseWork& work, PhaseObserver* phases,
                                     const AbortToken& abort) {
  {
    const Phase phase(phases, "allgather");
    RONDE_RETURN_IF_ERROR(gather_rows(work, abort));
  }
  const Phase phase(phases, "sum");
  received_.group();
  const Output out = output(work, received_.count());
  for (std::size_t i = 0; i < received_.count(); ++i) {
    (*out.indices)[i] = received_.index(i);
    received_.sum(i, work.shared, *kernels_, work.width, out.rows + i * work.row_bytes());
  }
  return out.status;
}

/// Brings all ranks' rows here.
Status SparseAllreduce::gather_rows(const SparseWork& work, const AbortToken& abort) {
  chunk_bytes_.clear();
  for (const IndexSample& sample : samples_) {
    chunk_bytes_.push_back(
        row_block_bytes(static_cast<std::size_t>(sample.count), work.row_bytes()));
  }
  const std::size_t bytes = sum_of_bytes(chunk_bytes_);
  std::byte* const block =
      scratch_.block(kSentBlock, chunk_bytes_[static_cast<std::size_t>(options_.rank)]);
  write_block(work, 0, own_.count(), block);
  const Segment segment{block, scratch_.block(kReceivedBlock, bytes), bytes};
  RONDE_RETURN_IF_ERROR(allgather({&segment, 1}, abort));
  received_.clear();
  const std::byte* at = segment.out;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    read_block(work, at, static_cast<std::size_t>(samples_[rank].count));
    at += chunk_bytes_[rank];
  }
  return {};
}

Status SparseAllreduce::by_keys(const SparseWork& work, PhaseObserver* phases,
                                const AbortToken& abort) {
  {
    const Phase phase(phases, "exchange of rows");
    RONDE_ASSIGN_OR_RETURN(const auto counts, exchange_counts(abort));
    RONDE_RETURN_IF_ERROR(deal(work, counts, abort));
  }
  const std::size_t row = work.row_bytes();
  {
    const Phase phase(phases, "sum");
    received_.group();
    std::byte* const rows = scratch_.block(kSumsBlock, received_.count() * row);
    for (std::size_t i = 0; i < received_.count(); ++i) {
      received_.sum(i, work.shared, *kernels_, work.width, rows + i * row);
    }
  }
  const Phase phase(phases, "allgather");
  return gather_sums(work, abort);
}

/// The rows from each rank (by n) for each owner.
Result<std::vector<std::int64_t>> SparseAllreduce::exchange_counts(const AbortToken& abort) {
  const std::vector<std::int64_t> begins = share_begins(samples_);
  numbers_.clear();
  for (std::size_t owner = 0; owner < size_; ++owner) {
    const bool last = owner + 1 == size_;
    const std::size_t end = last ? own_.count() : own_.lower_bound(begins[owner + 1]);
    const std::size_t begin = own_.lower_bound(begins[owner]);
    numbers_.push_back(static_cast<std::int64_t>(end - begin));
  }
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(numbers_, abort));
  return std::vector<std::int64_t>(all.begin(), all.end());
}

/// Sends each row to its owner.
Status SparseAllreduce::deal(const SparseWork& work, std::span<const std::int64_t> counts,
                             const AbortToken& abort) {
  const auto count = [&](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(counts[from * size_ + to]);
  };
  const auto me = static_cast<std::size_t>(options_.rank);
  send_bytes_.clear();
  recv_bytes_.clear();
  for (std::size_t rank = 0; rank < size_; ++rank) {
    send_bytes_.push_back(row_block_bytes(count(me, rank), work.row_bytes()));
    recv_bytes_.push_back(row_block_bytes(count(rank, me), work.row_bytes()));
  }
  std::byte* block = scratch_.block(kSentBlock, sum_of_bytes(send_bytes_));
  const Segment segment{block, scratch_.block(kReceivedBlock, sum_of_bytes(recv_bytes_)),
                        sum_of_bytes(send_bytes_)};
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    write_block(work, first, first + count(me, rank), block);
    first += count(me, rank);
    block += send_bytes_[rank];
  }
  Work moved;
  moved.kind = Collective::kAlltoall;
  moved.reduction.dtype = DType::kUint8;
  moved.segments = {&segment, 1};
  moved.send_bytes = send_bytes_;
  moved.recv_bytes = recv_bytes_;
  for (const IndexSample& sample : samples_) {
    moved.bytes += row_block_bytes(static_cast<std::size_t>(sample.count), work.row_bytes());
  }
  if (moved.bytes > 0) {
    RONDE_RETURN_IF_ERROR(host_.run(moved, kNoStream, abort).in_tensor({}));
  }
  received_.clear();
  const std::byte* at = segment.out;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    read_block(work, at, count(rank, me));
    at += recv_bytes_[rank];
  }
  return {};
}

/// Joins the owners' sums, which are in ascending order of indices.
Status SparseAllreduce::gather_sums(const SparseWork& work, const AbortToken& abort) {
  const std::size_t row = work.row_bytes();
  const std::size_t mine = received_.count();
  const auto number = static_cast<std::int64_t>(mine);
  RONDE_ASSIGN_OR_RETURN(const auto counts, exchange_.allgather({&number, 1}, abort));
  chunk_bytes_.clear();
  for (const std::int64_t rows : counts) {
    chunk_bytes_.push_back(static_cast<std::size_t>(rows) * row);
  }
  for (const std::int64_t rows : counts) {
    chunk_bytes_.push_back(static_cast<std::size_t>(rows) * sizeof(std::int64_t));
  }
  const auto all =
      static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  numbers_.resize(mine);
  for (std::size_t i = 0; i < mine; ++i) numbers_[i] = received_.index(i);
  const Output out = output(work, all);
  const Segment segments[] = {
      {scratch_.block(kSumsBlock, mine * row), out.rows, all * row},
      {std::as_bytes(std::span(numbers_)).data(),
       std::as_writable_bytes(std::span(*out.indices)).data(), all * sizeof(std::int64_t)}};
  const std::span moving = row == 0 ? std::span(segments).subspan(1) : std::span(segments);
  if (row == 0) chunk_bytes_.erase(chunk_bytes_.begin(), chunk_bytes_.begin() + options_.size);
  RONDE_RETURN_IF_ERROR(allgather(moving, abort));
  return out.status;
}

Status SparseAllreduce::by_table(const SparseWork& work, PhaseObserver* phases,
                                 const AbortToken& abort) {
  const std::size_t row = work.row_bytes();
  const auto rows = static_cast<std::size_t>(table_rows_);
  std::byte* const table = scratch_.block(kReceivedBlock, rows * row);
  std::byte* const present = scratch_.block(kSumsBlock, rows);
  {
    const Phase phase(phases, "allreduce");
    std::memset(table, 0, rows * row);
    std::memset(present, 0, rows);
    for (std::size_t i = 0; i < own_.count(); ++i) {
      const auto at = static_cast<std::size_t>(own_.index(i));
      sum_own(work, i, table + at * row);
      present[at] = std::byte{1};
    }
    RONDE_RETURN_IF_ERROR(reduce_table(work, table, present, abort));
  }
  const Phase phase(phases, "sum");
  const auto found = std::count(present, present + rows, std::byte{1});
  const Output out = output(work, static_cast<std::size_t>(found));
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    if (present[i] == std::byte{0}) continue;
    (*out.indices)[next] = static_cast<std::int64_t>(i);
    copy_bytes(out.rows + next * row, table + i * row, row);
    ++next;
  }
  return out.status;
}

Status SparseAllreduce::reduce_table(const SparseWork& work, std::byte* table, std::byte* present,
                                     const AbortToken& abort) {
  const auto rows = static_cast<std::size_t>(table_rows_);
  Work reduced;
  reduced.kind = Collective::kAllreduce;
  reduced.reduction = work.shared;
  const Segment values{table, table, rows * work.row_bytes()};
  reduced.segments = {&values, 1};
  reduced.bytes = values.bytes;
  if (reduced.bytes > 0) {
    RONDE_RETURN_IF_ERROR(host_.run(reduced, kNoStream, abort).in_tensor({}));
  }
  reduced.reduction = {DType::kUint8, ReduceOp::kMax, {}};
  const Segment flags{present, present, rows};
  reduced.segments = {&flags, 1};
  reduced.bytes = rows;
  return rows == 0 ? Status() : host_.run(reduced, kNoStream, abort).in_tensor({});
}

void SparseAllreduce::write_block(const SparseWork& work, std::size_t first, std::size_t last,
                                  std::byte* block) {
  std::byte* rows = block + (last - first) * sizeof(std::int64_t);
  for (std::size_t i = first; i < last; ++i) {
    const std::int64_t index = own_.index(i);
    std::memcpy(block, &index, sizeof(index));
    sum_own(work, i, rows);
    block += sizeof(index);
    rows += work.row_bytes();
  }
}

/// A weight of 0 gives zeros, even for inputs that are NaN.
void SparseAllreduce::sum_own(const SparseWork& work, std::size_t group, std::byte* out) {
  if (work.own.scaling.pre == 0.0) {
    std::memset(out, 0, work.row_bytes());
  } else {
    own_.sum(group, work.own, *kernels_, work.width, out);
  }
}

void SparseAllreduce::read_block(const SparseWork& work, const std::byte* block,
                                 std::size_t count) {
  // Blocks begin at multiples of 64 bytes.
  const auto* indices = reinterpret_cast<const std::int64_t*>(block);
  received_.add({indices, count}, block + count * sizeof(std::int64_t), work.row_bytes());
}

SparseAllreduce::Output SparseAllreduce::output(const SparseWork& work, std::size_t rows) {
  Output out;
  out.indices = work.tensor.recv_splits == nullptr ? &spare_ : work.tensor.recv_splits;
  out.indices->resize(rows);
  if (work.tensor.allocate != nullptr) {
    Shape shape = work.tensor.shape;
    shape[0] = static_cast<std::int64_t>(rows);
    const Result<void*> memory = (*work.tensor.allocate)(work.tensor.index, shape);
    out.status = memory.status();
    if (memory.ok()) out.rows = static_cast<std::byte*>(memory.value());
  }
  // Whatever was sent has arrived.
  if (out.rows == nullptr) out.rows = scratch_.block(kSentBlock, rows * work.row_bytes());
  return out;
}

}  // namespace ronde
