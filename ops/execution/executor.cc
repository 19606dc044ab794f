#include "ops/execution/executor.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/protocol/several_devices.h"
#include "ops/execution/extents.h"
#include "ops/execution/plane_executor.h"
#include "ops/execution/scaling.h"
#include "ops/selection/selector.h"

namespace ronde {

namespace {

bool is_auto(const Bundle& bundle) {
  return bundle.compression.starts_with(codec_name(CodecKind::kAuto));
}

const std::byte* input_of(const BundleTensor& tensor) {
  return static_cast<const std::byte*>(tensor.in);
}

}  // namespace

Status PlaneExecutor::check(const Bundle& bundle) const {
  if (bundle.device.kind == kSeveralDevices) {
    return {Code::kUnsupported,
            "the tensors are on several devices; a process set works on one device of each rank"};
  }
  if (traits_of(bundle.kind).reduces && !is_defined(bundle.op, bundle.dtype)) {
    return {Code::kInvalidArgument,
            fmt::format("{} is not defined for {}", to_string(bundle.op), to_string(bundle.dtype))};
  }
  if (!bundle.compression.empty()) {
    RONDE_RETURN_IF_ERROR(check_compressible(bundle.kind, bundle.dtype, bundle.op));
  }
  if (traits_of(bundle.kind).rooted() && (bundle.root < 0 || bundle.root >= size_)) {
    return {Code::kInvalidArgument,
            fmt::format("root {} is not a rank of a group of {}", bundle.root, size_)};
  }
  return {};
}

Status PlaneExecutor::execute_kind(const Bundle& bundle, const AbortToken& abort) {
  const CollectiveTraits& traits = traits_of(bundle.kind);
  if (traits.has_splits()) return execute_alltoall(bundle, abort);
  if (traits.shape == ShapeOf::kOutput) return execute_scatter(bundle, abort);
  if (traits.input.layout == BufferLayout::kOwnChunk) return execute_gathering(bundle, abort);
  if (traits.input.layout == BufferLayout::kChunks) return execute_reduce_scatter(bundle, abort);
  return execute_whole(bundle, abort);
}

// allreduce, reduce, broadcast: outputs as large as inputs; and barrier, which has neither.
Status PlaneExecutor::execute_whole(const Bundle& bundle, const AbortToken& abort) {
  const bool writes = !traits_of(bundle.kind).output.root_only || is_root(bundle);
  std::size_t bytes = 0;
  for (const BundleTensor& tensor : bundle.tensors) {
    const std::size_t size =
        static_cast<std::size_t>(element_count(tensor.shape)) * size_of(bundle.dtype);
    std::byte* out = writes ? output(tensor, tensor.shape) : nullptr;
    segments_.push_back({input_of(tensor), out, size});
    bytes += size;
  }
  if (bundle.compression.empty()) return run(bundle, work_of(bundle), bytes, abort);
  if (is_auto(bundle)) return execute_auto(bundle, bytes, abort);
  return execute_compressed(bundle, bytes, abort);
}

Status PlaneExecutor::execute_reduce_scatter(const Bundle& bundle, const AbortToken& abort) {
  std::size_t bytes = 0;
  for (const BundleTensor& tensor : bundle.tensors) {
    if (tensor.shape.empty()) {
      return {Code::kInvalidArgument,
              fmt::format("reduce_scatter '{}': a tensor without dimensions cannot be scattered",
                          tensor.name)};
    }
    const auto row = static_cast<std::size_t>(row_elements(tensor.shape)) * size_of(bundle.dtype);
    const std::int64_t rows = tensor.shape[0];
    for (int rank = 0; rank < size_; ++rank) {
      part_bytes_.push_back(static_cast<std::size_t>(even_rows(rows, size_, rank)) * row);
    }
    const std::size_t size = static_cast<std::size_t>(rows) * row;
    segments_.push_back(
        {input_of(tensor), output_rows(tensor, even_rows(rows, size_, rank_)), size});
    bytes += size;
  }
  return run(bundle, work_of(bundle), bytes, abort);
}

Status PlaneExecutor::execute_scatter(const Bundle& bundle, const AbortToken& abort) {
  const auto ranks = static_cast<std::size_t>(size_);
  std::size_t bytes = 0;
  for (const BundleTensor& tensor : bundle.tensors) {
    const std::size_t part =
        static_cast<std::size_t>(element_count(tensor.shape)) * size_of(bundle.dtype);
    part_bytes_.insert(part_bytes_.end(), ranks, part);
    segments_.push_back({input_of(tensor), output(tensor, tensor.shape), part * ranks});
    bytes += part * ranks;
  }
  return run(bundle, work_of(bundle), bytes, abort);
}

// allgather and gather: first extents are exchanged, then the tensors move.
Status PlaneExecutor::execute_gathering(const Bundle& bundle, const AbortToken& abort) {
  words_.clear();
  for (const BundleTensor& tensor : bundle.tensors) words_.push_back(first_extent(tensor.shape));
  RONDE_RETURN_IF_ERROR(exchange_words(abort));
  for (std::size_t index = 0; index < bundle.tensors.size(); ++index) add_gathered(bundle, index);
  const Work work = work_of(bundle);
  return run(bundle, work, total_bytes(work), abort);
}

void PlaneExecutor::add_gathered(const Bundle& bundle, std::size_t index) {
  const BundleTensor& tensor = bundle.tensors[index];
  const auto row = static_cast<std::size_t>(row_elements(tensor.shape)) * size_of(bundle.dtype);
  std::int64_t rows = 0;
  for (std::size_t at = index; at < all_words_.size(); at += bundle.tensors.size()) {
    part_bytes_.push_back(static_cast<std::size_t>(all_words_[at]) * row);
    rows += all_words_[at];
  }
  const bool writes = !traits_of(bundle.kind).output.root_only || is_root(bundle);
  segments_.push_back({input_of(tensor), writes ? output_rows(tensor, rows) : nullptr,
                       static_cast<std::size_t>(rows) * row});
}

// Splits and verdicts of all tensors are exchanged; only if all are good does anything move.
Status PlaneExecutor::execute_alltoall(const Bundle& bundle, const AbortToken& abort) {
  words_.clear();
  for (const BundleTensor& tensor : bundle.tensors) append_alltoall(tensor, size_, words_);
  RONDE_RETURN_IF_ERROR(exchange_words(abort));
  const std::size_t words = alltoall_words(size_);
  std::vector<std::vector<std::int64_t>> of_tensor(bundle.tensors.size());
  for (std::size_t index = 0; index < of_tensor.size(); ++index) {
    for (std::size_t at = index * words; at < all_words_.size(); at += words_.size()) {
      const auto* begin = all_words_.data() + at;
      of_tensor[index].insert(of_tensor[index].end(), begin, begin + words);
    }
    RONDE_RETURN_IF_ERROR(check_alltoall(bundle.tensors[index].name, size_, of_tensor[index]));
  }
  for (std::size_t index = 0; index < of_tensor.size(); ++index) {
    RONDE_RETURN_IF_ERROR(run_alltoall(bundle, index, of_tensor[index], abort));
  }
  return {};
}

Status PlaneExecutor::run_alltoall(const Bundle& bundle, std::size_t index,
                                   std::span<const std::int64_t> words, const AbortToken& abort) {
  const BundleTensor& tensor = bundle.tensors[index];
  const auto row = static_cast<std::size_t>(row_elements(tensor.shape)) * size_of(bundle.dtype);
  std::int64_t received = 0;
  send_bytes_.clear();
  recv_bytes_.clear();
  if (tensor.recv_splits != nullptr) tensor.recv_splits->clear();
  for (int rank = 0; rank < size_; ++rank) {
    const std::int64_t rows = alltoall_rows(words, size_, rank, rank_);
    send_bytes_.push_back(static_cast<std::size_t>(alltoall_rows(words, size_, rank_, rank)) * row);
    recv_bytes_.push_back(static_cast<std::size_t>(rows) * row);
    if (tensor.recv_splits != nullptr) tensor.recv_splits->push_back(rows);
    received += rows;
  }
  const std::size_t sent = static_cast<std::size_t>(first_extent(tensor.shape)) * row;
  segments_.assign(1, {input_of(tensor), output_rows(tensor, received), sent});
  std::int64_t all_rows = 0;
  for (int rank = 0; rank < size_; ++rank) {
    all_rows += words[static_cast<std::size_t>(rank) * alltoall_words(size_) + 1];
  }
  return run(bundle, work_of(bundle), static_cast<std::size_t>(all_rows) * row, abort);
}

// Gathers every rank's `words_` (equally many) in `all_words_`, by rank.
Status PlaneExecutor::exchange_words(const AbortToken& abort) {
  all_words_.resize(words_.size() * static_cast<std::size_t>(size_));
  const Segment segment{std::as_bytes(std::span(words_)).data(),
                        std::as_writable_bytes(std::span(all_words_)).data(),
                        all_words_.size() * sizeof(std::int64_t)};
  recv_bytes_.assign(static_cast<std::size_t>(size_), words_.size() * sizeof(std::int64_t));
  Work work;
  work.kind = Collective::kAllgather;
  work.reduction.dtype = DType::kInt64;
  work.segments = {&segment, 1};
  work.chunk_bytes = recv_bytes_;
  WorkDesc desc;
  desc.kind = work.kind;
  desc.dtype = DType::kInt64;
  desc.bytes = segment.bytes;
  RONDE_ASSIGN_OR_RETURN(const Route route, runner_.route(desc));
  return runner_.run(work, route, abort);
}

Work PlaneExecutor::work_of(const Bundle& bundle) const {
  return {.kind = bundle.kind,
          .reduction =
              reduction_for({bundle.dtype, bundle.op, bundle.prescale, bundle.postscale}, size_),
          .root = bundle.root,
          .segments = segments_,
          .chunk_bytes = part_bytes_,
          .send_bytes = send_bytes_,
          .recv_bytes = recv_bytes_};
}

// Runs work of `bytes`, a number on which all ranks agree, between the events of its tensors.
Status PlaneExecutor::run(const Bundle& bundle, const Work& work, std::size_t bytes,
                          const AbortToken& abort) {
  const WorkDesc desc{.kind = bundle.kind,
                      .dtype = bundle.dtype,
                      .op = work.reduction.op,
                      .device = bundle.device,
                      .bytes = bytes,
                      .compressed = work.compression != nullptr};
  last_on_device_ = bundle.device.kind != DeviceKind::kCpu;
  if (last_on_device_) {  // for compressed work it is chosen already
    if (!desc.compressed) RONDE_RETURN_IF_ERROR(device_.choose(bundle, desc, abort));
  } else {
    RONDE_ASSIGN_OR_RETURN(last_route_, runner_.route(desc));
  }
  EventSink* const events = events_ == nullptr ? nullptr : events_->get();
  if (events == nullptr) return move(work, abort, nullptr);
  const std::string_view algorithm =
      work.compression == nullptr ? WorkRunner::algorithm_name(last_route_) : bundle.compression;
  const EventArgs args{
      .collective = bundle.kind,
      .bytes = bytes,
      .algorithm = last_on_device_ && !desc.compressed ? std::string_view() : algorithm,
      .backend = last_on_device_ ? device_.path() : runner_.plane_name(),
      .tensors = static_cast<int>(bundle.tensors.size()),
      .bundle = bundle.id,
      .partition = bundle.partition};
  lanes_.clear();
  for (const BundleTensor& tensor : bundle.tensors) lanes_.push_back(tensor.name);
  events->begin_all(lanes_, traits_of(bundle.kind).event(), args);
  if (work.compression != nullptr && work.compression->scheme().codec != nullptr) {
    events->counter("compression ratio", work.compression->ratio(work));
  }
  Phases phases(*events, phase_lanes_, bytes);
  Status status = move(work, abort, &phases);
  const EventArgs end{.pack_ns = phases.pack_ns(), .compression = last_facts_};
  events->end_all(lanes_, end);
  return status;
}

Status PlaneExecutor::move(const Work& work, const AbortToken& abort, Phases* phases) {
  last_facts_ = {};
  if (last_on_device_) {
    RONDE_RETURN_IF_ERROR(device_.run(work, abort));
  } else {
    RONDE_RETURN_IF_ERROR(runner_.run(work, last_route_, abort, phases));
  }
  if (work.compression != nullptr) last_facts_ = work.compression->facts();
  return {};
}

// Where this tensor's result goes; null where nobody wants it or no memory could be had.
std::byte* PlaneExecutor::output(const BundleTensor& tensor, const Shape& shape) {
  if (tensor.out != nullptr) return static_cast<std::byte*>(tensor.out);
  if (tensor.allocate == nullptr) return nullptr;
  Result<void*> memory = (*tensor.allocate)(tensor.index, shape);
  if (memory.ok()) return static_cast<std::byte*>(memory.value());
  if (allocation_.ok()) allocation_ = memory.status();
  return nullptr;
}

std::byte* PlaneExecutor::output_rows(const BundleTensor& tensor, std::int64_t rows) {
  if (tensor.out != nullptr) return static_cast<std::byte*>(tensor.out);
  return output(tensor, with_first_extent(tensor.shape, rows));
}

Result<std::unique_ptr<CollectiveExecutor>> create_executor(ExecutorOptions options) {
  RONDE_RETURN_IF_ERROR(check_algorithm(options.algorithm));
  const bool needs_transport =
      options.size > 1 && !options.algorithm.empty() && options.algorithm != kNativeAlgorithm;
  if (needs_transport && options.plane->transport() == nullptr) {
    return Status(Code::kUnsupported,
                  fmt::format("algorithm '{}' needs point-to-point, which {} has not; allowed "
                              "there: {}",
                              options.algorithm, options.plane_name, kNativeAlgorithm));
  }
  return std::unique_ptr<CollectiveExecutor>(std::make_unique<PlaneExecutor>(options));
}

}  // namespace ronde
