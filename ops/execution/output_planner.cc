#include "ops/execution/output_planner.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "ops/execution/extents.h"
#include "ops/kernels/scalar.h"

namespace ronde {
namespace {

// value / divisor, rounded away from zero where it is not exact.
double quotient_away_from_zero(double value, double divisor) {
  const double quotient = value / divisor;
  const double missing = std::fma(-quotient, divisor, value);
  if (missing == 0.0 || std::signbit(missing) != std::signbit(value)) return quotient;
  return std::nextafter(quotient, std::copysign(std::numeric_limits<double>::infinity(), value));
}

Scaling average_scaling(const ReductionRequest& request, int ranks) {
  const double size = ranks;
  if (is_narrow_floating(request.dtype)) {
    const double power = std::bit_ceil(static_cast<unsigned>(ranks));
    return {request.prescale / power, request.postscale * power / size};
  }
  if (is_floating(request.dtype)) return {request.prescale, request.postscale / size};
  return {request.prescale, quotient_away_from_zero(request.postscale, size)};
}

/// Rounds the factor on a sum of float32 to float32, like the factor on its inputs. Divisors stay
/// exact.
double after_sum(DType dtype, double factor) {
  using Float = std::numeric_limits<float>;
  const double size = std::abs(factor);
  const bool fits = size >= Float::min() && size <= Float::max();
  if (dtype != DType::kFloat32 || !fits || kernels::divisor_of(factor) != 0.0) return factor;
  return static_cast<double>(static_cast<float>(factor));
}

const std::byte* input_of(const BundleTensor& tensor) {
  return static_cast<const std::byte*>(tensor.in);
}

std::size_t size_of_tensor(const Bundle& bundle, const BundleTensor& tensor) {
  return static_cast<std::size_t>(element_count(tensor.shape)) * size_of(bundle.dtype);
}

std::size_t row_bytes(const Bundle& bundle, const BundleTensor& tensor) {
  return static_cast<std::size_t>(row_elements(tensor.shape)) * size_of(bundle.dtype);
}

class KernelReducer final : public PayloadReducer {
 public:
  explicit KernelReducer(std::shared_ptr<const ReduceKernels> kernels)
      : kernels_(std::move(kernels)) {}

  void reduce(const ReductionRequest& request, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    kernels_->reduce(reduction_for(request, static_cast<int>(inputs.size())), inputs, out, count);
  }

 private:
  const std::shared_ptr<const ReduceKernels> kernels_;
};

}  // namespace

Reduction reduction_for(const ReductionRequest& request, int ranks) noexcept {
  if (request.op == ReduceOp::kAdasum && ranks == 1) {
    return {request.dtype, ReduceOp::kSum, {request.prescale, request.postscale}};
  }
  if (request.op != ReduceOp::kAverage) {
    const double post = after_sum(request.dtype, request.postscale);
    return {request.dtype, request.op, {request.prescale, post}};
  }
  return {request.dtype, ReduceOp::kSum, average_scaling(request, ranks)};
}

Status OutputPlanner::plan(const Bundle& bundle, const AbortToken& abort) {
  segments_.clear();
  chunk_bytes_.clear();
  allocation_ = {};
  works_ = 1;
  bytes_ = 0;
  const CollectiveTraits& traits = traits_of(bundle.kind);
  if (traits.has_splits()) return plan_alltoall(bundle, abort);
  if (traits.input.layout == BufferLayout::kOwnChunk) return plan_gathering(bundle, abort);
  if (traits.shape == ShapeOf::kTensor && traits.input.layout == BufferLayout::kChunks) {
    return plan_reduce_scatter(bundle);
  }
  if (traits.shape == ShapeOf::kOutput) {
    plan_scatter(bundle);
  } else {
    plan_whole(bundle);
  }
  return {};
}

Work OutputPlanner::work(const Bundle& bundle, std::size_t index) {
  if (traits_of(bundle.kind).has_splits()) place_alltoall(bundle, index);
  return {.kind = bundle.kind,
          .reduction =
              reduction_for({bundle.dtype, bundle.op, bundle.prescale, bundle.postscale}, size_),
          .root = bundle.root,
          .segments = segments_,
          .chunk_bytes = chunk_bytes_,
          .send_bytes = send_bytes_,
          .recv_bytes = recv_bytes_,
          .bytes = bytes_};
}

void OutputPlanner::add(const Segment& segment) {
  segments_.push_back(segment);
  bytes_ += segment.bytes;
}

/// allreduce, reduce, broadcast: outputs as large as inputs; and barrier, which has neither.
void OutputPlanner::plan_whole(const Bundle& bundle) {
  const bool writes = !traits_of(bundle.kind).output.root_only || is_root(bundle);
  for (const BundleTensor& tensor : bundle.tensors) {
    std::byte* out = writes ? output(tensor, tensor.shape) : nullptr;
    add({input_of(tensor), out, size_of_tensor(bundle, tensor)});
  }
}

Status OutputPlanner::plan_reduce_scatter(const Bundle& bundle) {
  for (const BundleTensor& tensor : bundle.tensors) {
    if (tensor.shape.empty()) {
      return {Code::kInvalidArgument, "a tensor without dimensions cannot be scattered"};
    }
    const std::size_t row = row_bytes(bundle, tensor);
    const std::int64_t rows = tensor.shape[0];
    for (int rank = 0; rank < size_; ++rank) {
      chunk_bytes_.push_back(static_cast<std::size_t>(even_rows(rows, size_, rank)) * row);
    }
    add({input_of(tensor), output_rows(tensor, even_rows(rows, size_, rank_)),
         static_cast<std::size_t>(rows) * row});
  }
  return {};
}

void OutputPlanner::plan_scatter(const Bundle& bundle) {
  const auto ranks = static_cast<std::size_t>(size_);
  for (const BundleTensor& tensor : bundle.tensors) {
    const std::size_t chunk = size_of_tensor(bundle, tensor);
    chunk_bytes_.insert(chunk_bytes_.end(), ranks, chunk);
    add({input_of(tensor), output(tensor, tensor.shape), chunk * ranks});
  }
}

/// allgather and gather: first extents are exchanged before the tensors move.
Status OutputPlanner::plan_gathering(const Bundle& bundle, const AbortToken& abort) {
  mine_.clear();
  for (const BundleTensor& tensor : bundle.tensors) mine_.push_back(first_extent(tensor.shape));
  RONDE_ASSIGN_OR_RETURN(const auto rows, exchange_.allgather(mine_, abort));
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) add_gathered(bundle, i, rows);
  return {};
}

void OutputPlanner::add_gathered(const Bundle& bundle, std::size_t index,
                                 std::span<const std::int64_t> rows) {
  const BundleTensor& tensor = bundle.tensors[index];
  const std::size_t row = row_bytes(bundle, tensor);
  std::int64_t all = 0;
  for (std::size_t at = index; at < rows.size(); at += bundle.tensors.size()) {
    chunk_bytes_.push_back(static_cast<std::size_t>(rows[at]) * row);
    all += rows[at];
  }
  const bool writes = !traits_of(bundle.kind).output.root_only || is_root(bundle);
  add({input_of(tensor), writes ? output_rows(tensor, all) : nullptr,
       static_cast<std::size_t>(all) * row});
}

/// Splits and verdicts of all tensors are exchanged. Nothing moves unless all are good.
Status OutputPlanner::plan_alltoall(const Bundle& bundle, const AbortToken& abort) {
  mine_.clear();
  for (const BundleTensor& tensor : bundle.tensors) append_alltoall(tensor, size_, mine_);
  RONDE_ASSIGN_OR_RETURN(const auto all, exchange_.allgather(mine_, abort));
  const std::size_t each = alltoall_numbers(size_);
  works_ = bundle.tensors.size();
  splits_.assign(works_, {});
  for (std::size_t index = 0; index < works_; ++index) {
    for (std::size_t at = index * each; at < all.size(); at += mine_.size()) {
      const auto theirs = all.subspan(at, each);
      splits_[index].insert(splits_[index].end(), theirs.begin(), theirs.end());
    }
    RONDE_RETURN_IF_ERROR(check_alltoall(size_, splits_[index]));
  }
  return {};
}

void OutputPlanner::place_alltoall(const Bundle& bundle, std::size_t index) {
  const BundleTensor& tensor = bundle.tensors[index];
  const std::span<const std::int64_t> numbers = splits_[index];
  const std::size_t row = row_bytes(bundle, tensor);
  std::int64_t received = 0, all = 0;
  send_bytes_.clear();
  recv_bytes_.clear();
  if (tensor.recv_splits != nullptr) tensor.recv_splits->clear();
  for (int rank = 0; rank < size_; ++rank) {
    const std::int64_t rows = alltoall_rows(numbers, size_, rank, rank_);
    send_bytes_.push_back(static_cast<std::size_t>(alltoall_rows(numbers, size_, rank_, rank)) *
                          row);
    recv_bytes_.push_back(static_cast<std::size_t>(rows) * row);
    if (tensor.recv_splits != nullptr) tensor.recv_splits->push_back(rows);
    received += rows;
    all +=
        numbers[static_cast<std::size_t>(rank) * alltoall_numbers(size_) + 1];  // its first extent
  }
  const std::size_t sent = static_cast<std::size_t>(first_extent(tensor.shape)) * row;
  segments_.assign(1, {input_of(tensor), output_rows(tensor, received), sent});
  bytes_ = static_cast<std::size_t>(all) * row;
}

/// The memory for a tensor's result; null if this rank wants none or it could not be allocated.
std::byte* OutputPlanner::output(const BundleTensor& tensor, const Shape& shape) {
  if (tensor.out != nullptr) return static_cast<std::byte*>(tensor.out);
  if (tensor.allocate == nullptr) return nullptr;
  Result<void*> memory = (*tensor.allocate)(tensor.index, shape);
  if (memory.ok()) return static_cast<std::byte*>(memory.value());
  if (allocation_.ok()) allocation_ = memory.status();
  return nullptr;
}

std::byte* OutputPlanner::output_rows(const BundleTensor& tensor, std::int64_t rows) {
  if (tensor.out != nullptr) return static_cast<std::byte*>(tensor.out);
  return output(tensor, with_first_extent(tensor.shape, rows));
}

std::unique_ptr<PayloadReducer> create_payload_reducer(
    std::shared_ptr<const ReduceKernels> kernels) {
  return std::make_unique<KernelReducer>(std::move(kernels));
}

}  // namespace ronde
