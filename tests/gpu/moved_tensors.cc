#include "tests/gpu/moved_tensors.h"

#include <algorithm>

#include "ops/memory/device_wait.h"

namespace ronde::test {
namespace {

std::size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
}

/// True where an output has the tensor's shape.
bool keeps_shape(Collective kind) {
  using enum Collective;
  return kind == kAllreduce || kind == kReduce || kind == kBroadcast || kind == kScatter;
}

/// Blocks until the stream's copies have ended, also after an abort: the caller's memory may end
/// with the operation. No collective runs on this stream, so no other rank can block it.
Status finish(DeviceOps& device, DeviceStream stream) {
  RONDE_ASSIGN_OR_RETURN(const DeviceEventPtr done, device.record(stream));
  return wait_on_host(*done, AbortToken());
}

}  // namespace

OnRealDevice::OnRealDevice(std::unique_ptr<Executor> inner, std::shared_ptr<DeviceOps> device,
                           int ranks)
    : inner_(std::move(inner)),
      device_(std::move(device)),
      ranks_(ranks),
      stream_(device_->open_stream().value()) {}

Status OnRealDevice::execute(const Bundle& bundle, const AbortToken& abort) {
  const bool is_moved = bundle.device.kind != DeviceKind::kCpu;
  if (bundle.tensors.empty() || is_moved) return inner_->execute(bundle, abort);
  memory_.clear();
  allocators_.clear();
  outputs_.clear();
  Bundle moved = bundle;
  moved.device = {DeviceKind::kCuda, device_->index()};
  for (BundleTensor& tensor : moved.tensors) {
    RONDE_RETURN_IF_ERROR(move_tensor(tensor, bundle));
  }
  RONDE_RETURN_IF_ERROR(inner_->execute(moved, abort));
  for (const Output& output : outputs_) RONDE_RETURN_IF_ERROR(move_out(output));
  return {};
}

Result<OnRealDevice::Memory> OnRealDevice::room(std::size_t bytes) {
  constexpr std::size_t kLeast = 256;  // an empty tensor has an address too
  RONDE_ASSIGN_OR_RETURN(Memory memory,
                         device_->allocate(MemoryKind::kDevice, std::max(bytes, kLeast)));
  memory_.push_back(memory);
  return memory;
}

Result<OnRealDevice::Memory> OnRealDevice::move_in(const void* from, std::size_t bytes) {
  RONDE_ASSIGN_OR_RETURN(Memory memory, room(bytes));
  RONDE_RETURN_IF_ERROR(device_->copy(memory.get(), from, bytes, stream_));
  RONDE_RETURN_IF_ERROR(finish(*device_, stream_));
  return memory;
}

Status OnRealDevice::move_tensor(BundleTensor& tensor, const Bundle& bundle) {
  const std::size_t bytes = bytes_of(tensor.shape, bundle.dtype);
  const bool in_place = tensor.in != nullptr && tensor.in == tensor.out;
  Memory in;
  if (tensor.in != nullptr) {
    const auto parts = bundle.kind == Collective::kScatter ? static_cast<std::size_t>(ranks_) : 1;
    RONDE_ASSIGN_OR_RETURN(in, move_in(tensor.in, parts * bytes));
    tensor.in = in.get();
  }
  if (tensor.out != nullptr && keeps_shape(bundle.kind)) {
    // Copy the present content too: the operation may write a part of it only.
    Memory out = in;
    if (!in_place) {
      RONDE_ASSIGN_OR_RETURN(out, move_in(tensor.out, bytes));
    }
    outputs_.push_back({.there = out, .here = tensor.out, .shape = {}, .bytes = bytes});
    tensor.out = out.get();
  } else if (tensor.out != nullptr || tensor.allocate != nullptr) {
    move_allocator(tensor, bundle.dtype);
  }
  return {};
}

/// Outputs whose size the operation decides: allocated on the device, then copied to their places.
void OnRealDevice::move_allocator(BundleTensor& tensor, DType dtype) {
  const auto make = [this, dtype, here = tensor.out, to = tensor.allocate](
                        std::size_t index, const Shape& shape) -> Result<void*> {
    RONDE_ASSIGN_OR_RETURN(const Memory memory, room(bytes_of(shape, dtype)));
    outputs_.push_back({.there = memory,
                        .here = here,
                        .allocate = to,
                        .index = index,
                        .shape = shape,
                        .bytes = bytes_of(shape, dtype)});
    return static_cast<void*>(memory.get());
  };
  tensor.allocate = &allocators_.emplace_back(make);
  tensor.out = nullptr;
}

Status OnRealDevice::move_out(const Output& output) {
  void* to = output.here;
  if (to == nullptr) {
    RONDE_ASSIGN_OR_RETURN(to, (*output.allocate)(output.index, output.shape));
  }
  RONDE_RETURN_IF_ERROR(device_->copy(to, output.there.get(), output.bytes, stream_));
  return finish(*device_, stream_);
}

}  // namespace ronde::test
