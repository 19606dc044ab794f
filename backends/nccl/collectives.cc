#include "backends/nccl/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/base/small_float.h"

namespace ronde::nccl {
namespace {

/// NCCL's type for sums; none for int16 and uint16. bool is summed by its maximum.
ncclDataType_t type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt8:
      return ncclInt8;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUint32:
      return ncclUint32;
    case DType::kUint64:
      return ncclUint64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBfloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    default:
      return ncclUint8;
  }
}

/// For bool, sum and max are "or" and product and min are "and" of zeros and ones.
ncclRedOp_t op_of(const Reduction& reduction) noexcept {
  const bool truth = reduction.dtype == DType::kBool;
  switch (reduction.op) {
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return truth ? ncclMin : ncclProd;
    default:
      return truth ? ncclMax : ncclSum;
  }
}

/// A factor as one element of the type, as NCCL reads it.
std::array<std::byte, 8> scalar_of(DType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  const auto put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof(element)); };
  const auto single = static_cast<float>(value);
  if (dtype == DType::kFloat16) put(float_to_float16(single));
  if (dtype == DType::kBfloat16) put(float_to_bfloat16(single));
  if (dtype == DType::kFloat32) put(single);
  if (dtype == DType::kFloat64) put(value);
  return bytes;
}

bool even(std::span<const std::size_t> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](std::size_t part) { return part == parts[0]; });
}

/// Keeps the first error of several calls.
void keep_first(ncclResult_t& first, ncclResult_t next) {
  if (first == ncclSuccess || first == ncclInProgress) first = next;
}

}  // namespace

SupportTable supported() {
  return SupportTable::of([](Collective kind, DType dtype, ReduceOp op) {
    if (!Collectives::has(kind)) return false;
    if (!traits_of(kind).reduces) return true;
    const bool short_integer = dtype == DType::kInt16 || dtype == DType::kUint16;
    return !short_integer && !is_float8(dtype) && op <= ReduceOp::kProduct;
  });
}

Collectives::Collectives(Communicator& communicator, std::shared_ptr<DeviceOps> device, int rank,
                         int size)
    : communicator_(communicator),
      api_(communicator.api()),
      device_(std::move(device)),
      rank_(rank),
      size_(size) {}

Collectives::Step Collectives::step_of(Collective kind) noexcept {
  switch (kind) {
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return &Collectives::reduce;
    case Collective::kAllgather:
      return &Collectives::allgather;
    case Collective::kBroadcast:
      return &Collectives::broadcast;
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAlltoall:
      return &Collectives::exchange;
    default:
      return nullptr;
  }
}

Status Collectives::launch(const Work& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(device_->make_current());
  const Segment& segment = work.segments.front();
  const Buffers buffers{segment.in, segment.out, static_cast<cudaStream_t>(stream)};
  const Step step = step_of(work.kind);
  if (step != nullptr) return (this->*step)(work, buffers);
  return {Code::kUnsupported, fmt::format("nccl does no {}", to_string(work.kind))};
}

Collectives::Factors Collectives::factors_of(const Reduction& reduction) {
  const auto [pre, post] = reduction.scaling;
  if (reduction.dtype == DType::kBool) return {};
  if (is_floating(reduction.dtype) && reduction.op == ReduceOp::kSum) return {pre * post, 1.0, 1.0};
  return {1.0, pre, post};
}

std::size_t Collectives::output_bytes(const Work& work) const {
  if (work.kind == Collective::kReduceScatter) {
    return work.chunk_bytes[static_cast<std::size_t>(rank_)];
  }
  return work.kind == Collective::kReduce && rank_ != work.root ? 0 : work.segments[0].bytes;
}

Status Collectives::reduce(const Work& work, const Buffers& given) {
  Buffers buffers = given;
  const Factors factors = factors_of(work.reduction);
  const DType dtype = work.reduction.dtype;
  const std::size_t bytes = work.segments[0].bytes;
  if (factors.before != 1.0) {
    if (scratch_bytes_ < bytes) {
      scratch_.reset();
      RONDE_ASSIGN_OR_RETURN(scratch_, device_->allocate(MemoryKind::kDevice, bytes));
      scratch_bytes_ = bytes;
    }
    RONDE_RETURN_IF_ERROR(
        scale(dtype, factors.before, buffers.in, scratch_.get(), bytes, buffers.stream));
    buffers.in = scratch_.get();
  }
  RONDE_RETURN_IF_ERROR(reduce_scaled(work, buffers, factors.inside));
  if (factors.after == 1.0) return {};
  return scale(dtype, factors.after, buffers.out, buffers.out, output_bytes(work), buffers.stream);
}

Status Collectives::scale(DType dtype, double factor, const void* in, void* out, std::size_t bytes,
                          cudaStream_t stream) {
  const DeviceCopy copy{in, out, bytes / size_of(dtype)};
  return device_->transform({dtype, dtype, factor, {&copy, 1}}, stream);
}

Result<ncclRedOp_t> Collectives::operation(const Reduction& reduction, double inside) {
  if (inside == 1.0) return op_of(reduction);
  const std::pair key(reduction.dtype, inside);
  if (const auto found = scaled_sums_.find(key); found != scaled_sums_.end()) return found->second;
  auto scalar = scalar_of(reduction.dtype, inside);
  ncclRedOp_t made = ncclSum;
  RONDE_RETURN_IF_ERROR(communicator_.call("ncclRedOpCreatePreMulSum", [&](ncclComm_t handle) {
    return api_.red_op_create_pre_mul_sum(&made, scalar.data(), type_of(reduction.dtype),
                                          ncclScalarHostImmediate, handle);
  }));
  scaled_sums_.emplace(key, made);
  return made;
}

Status Collectives::reduce_scaled(const Work& work, const Buffers& buffers, double inside) {
  RONDE_ASSIGN_OR_RETURN(const ncclRedOp_t op, operation(work.reduction, inside));
  if (work.kind == Collective::kReduceScatter) return reduce_scatter(work, buffers, op);
  const ncclDataType_t type = type_of(work.reduction.dtype);
  const std::size_t count = work.segments[0].bytes / size_of(work.reduction.dtype);
  if (work.kind == Collective::kAllreduce) {
    return communicator_.call("ncclAllReduce", [&](ncclComm_t handle) {
      return api_.all_reduce(buffers.in, buffers.out, count, type, op, handle, buffers.stream);
    });
  }
  return communicator_.call("ncclReduce", [&](ncclComm_t handle) {
    return api_.reduce(buffers.in, buffers.out, count, type, op, work.root, handle, buffers.stream);
  });
}

Status Collectives::reduce_scatter(const Work& work, const Buffers& buffers, ncclRedOp_t op) {
  const ncclDataType_t type = type_of(work.reduction.dtype);
  const std::size_t element = size_of(work.reduction.dtype);
  if (even(work.chunk_bytes)) {
    return communicator_.call("ncclReduceScatter", [&](ncclComm_t handle) {
      return api_.reduce_scatter(buffers.in, buffers.out, work.chunk_bytes[0] / element, type, op,
                                 handle, buffers.stream);
    });
  }
  return communicator_.call("ncclReduce", [&](ncclComm_t handle) {
    ncclResult_t code = api_.group_start();
    const std::byte* part = buffers.in;
    for (int root = 0; root < size_; ++root) {
      const std::size_t bytes = work.chunk_bytes[static_cast<std::size_t>(root)];
      keep_first(code, api_.reduce(part, buffers.out, bytes / element, type, op, root, handle,
                                   buffers.stream));
      part += bytes;
    }
    keep_first(code, api_.group_end());
    return code;
  });
}

Status Collectives::allgather(const Work& work, const Buffers& buffers) {
  if (even(work.chunk_bytes)) {
    return communicator_.call("ncclAllGather", [&](ncclComm_t handle) {
      return api_.all_gather(buffers.in, buffers.out, work.chunk_bytes[0], ncclUint8, handle,
                             buffers.stream);
    });
  }
  return communicator_.call("ncclBroadcast", [&](ncclComm_t handle) {
    ncclResult_t code = api_.group_start();
    std::byte* part = buffers.out;
    for (int root = 0; root < size_; ++root) {
      const std::size_t bytes = work.chunk_bytes[static_cast<std::size_t>(root)];
      const std::byte* from = root == rank_ ? buffers.in : part;  // only the root's is read
      keep_first(code, api_.broadcast(from, part, bytes, ncclUint8, root, handle, buffers.stream));
      part += bytes;
    }
    keep_first(code, api_.group_end());
    return code;
  });
}

Status Collectives::broadcast(const Work& work, const Buffers& buffers) {
  const bool root = rank_ == work.root;
  // The caller makes the root's own copy; the root only sends here.
  auto* memory = root ? const_cast<std::byte*>(buffers.in) : buffers.out;
  return communicator_.call("ncclBroadcast", [&](ncclComm_t handle) {
    return api_.broadcast(memory, memory, work.segments[0].bytes, ncclUint8, work.root, handle,
                          buffers.stream);
  });
}

Status Collectives::exchange(const Work& work, const Buffers& buffers) {
  return communicator_.call("ncclSend and ncclRecv", [&](ncclComm_t handle) {
    ncclResult_t code = api_.group_start();
    keep_first(code, send_parts(work, buffers, handle));
    keep_first(code, receive_parts(work, buffers, handle));
    keep_first(code, api_.group_end());
    return code;
  });
}

ncclResult_t Collectives::send_parts(const Work& work, const Buffers& buffers, ncclComm_t handle) {
  if (work.kind == Collective::kGather) {
    return api_.send(buffers.in, work.chunk_bytes[static_cast<std::size_t>(rank_)], ncclUint8,
                     work.root, handle, buffers.stream);
  }
  if (work.kind == Collective::kScatter && rank_ != work.root) return ncclSuccess;
  const auto sizes = work.kind == Collective::kScatter ? work.chunk_bytes : work.send_bytes;
  ncclResult_t code = ncclSuccess;
  const std::byte* part = buffers.in;
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t bytes = sizes[static_cast<std::size_t>(peer)];
    keep_first(code, api_.send(part, bytes, ncclUint8, peer, handle, buffers.stream));
    part += bytes;
  }
  return code;
}

ncclResult_t Collectives::receive_parts(const Work& work, const Buffers& buffers,
                                        ncclComm_t handle) {
  if (work.kind == Collective::kScatter) {
    return api_.recv(buffers.out, work.chunk_bytes[static_cast<std::size_t>(rank_)], ncclUint8,
                     work.root, handle, buffers.stream);
  }
  if (work.kind == Collective::kGather && rank_ != work.root) return ncclSuccess;
  const auto sizes = work.kind == Collective::kGather ? work.chunk_bytes : work.recv_bytes;
  ncclResult_t code = ncclSuccess;
  std::byte* part = buffers.out;
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t bytes = sizes[static_cast<std::size_t>(peer)];
    keep_first(code, api_.recv(part, bytes, ncclUint8, peer, handle, buffers.stream));
    part += bytes;
  }
  return code;
}

}  // namespace ronde::nccl
