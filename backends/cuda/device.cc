#include "backends/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>

#include "backends/cuda/batched_copy.h"
#include "backends/cuda/calls.h"
#include "backends/cuda/codecs.h"
#include "backends/cuda/kernels.h"

namespace ronde::cuda {
namespace {

class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent(cudaEvent_t handle, int device) noexcept : handle_(handle), device_(device) {}
  ~CudaEvent() override { (void)cudaEventDestroy(handle_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  [[nodiscard]] cudaEvent_t handle() const noexcept { return handle_; }
  [[nodiscard]] Result<bool> reached() const override {
    const cudaError_t code = cudaEventQuery(handle_);
    if (code == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clear it, or the next launch would report it
      return false;
    }
    RONDE_RETURN_IF_ERROR(status_of(code, "cudaEventQuery", device_));
    return true;
  }
  [[nodiscard]] Result<std::int64_t> ns_since(const DeviceEvent& earlier) const override {
    float ms = 0;
    const cudaEvent_t from = static_cast<const CudaEvent&>(earlier).handle();
    const cudaError_t code = cudaEventElapsedTime(&ms, from, handle_);
    if (code != cudaSuccess) (void)cudaGetLastError();  // only the timeline lacks a time
    RONDE_RETURN_IF_ERROR(status_of(code, "cudaEventElapsedTime", device_));
    return static_cast<std::int64_t>(std::llround(static_cast<double>(ms) * 1e6));
  }

 private:
  const cudaEvent_t handle_;
  const int device_;
};

cudaStream_t native(DeviceStream stream) noexcept { return static_cast<cudaStream_t>(stream); }

void free_device(std::byte* memory) { (void)cudaFree(memory); }  // waits for the device

void free_pinned(std::byte* memory, int device) {
  const CurrentDevice current(device);
  if (current.status().ok()) (void)cudaDeviceSynchronize();  // copies may be running
  (void)cudaFreeHost(memory);
}

/// Calls `launch` on the device, unless no kernel compresses elements of that type.
template <typename Launch>
Status compress(int device, DType dtype, const Launch& launch) {
  if (!visit_floating(dtype, []<typename Element>() {})) {
    return {Code::kUnsupported, fmt::format("no kernel compresses {}", to_string(dtype))};
  }
  const CurrentDevice current(device);
  RONDE_RETURN_IF_ERROR(current.status());
  return status_of(launch(), "a kernel of compression", device);
}

}  // namespace

Status CudaCodecs::encode(const EncodeWork& work, DeviceStream stream) {
  return compress(device_, work.from, [&] { return launch_encode(work, native(stream)); });
}

Status CudaCodecs::decode(const DecodeWork& work, DeviceStream stream) {
  return compress(device_, work.to, [&] { return launch_decode(work, native(stream)); });
}

Status CudaCodecs::commit(std::span<const CommitRun> runs, DeviceStream stream) {
  return compress(device_, DType::kFloat32, [&] { return launch_commit(runs, native(stream)); });
}

std::size_t CudaCodecs::select_scratch(std::size_t count) const noexcept {
  return cuda::select_scratch(count);
}

Status CudaCodecs::select(const SelectWork& work, DeviceStream stream) {
  return compress(device_, work.from, [&] { return launch_select(work, native(stream)); });
}

Status CudaCodecs::scatter(const ScatterWork& work, DeviceStream stream) {
  return compress(device_, work.to, [&] { return launch_scatter(work, native(stream)); });
}

CudaDevice::~CudaDevice() {
  const CurrentDevice current(index_);
  for (const DeviceStream stream : streams_) (void)cudaStreamDestroy(native(stream));
}

Status CudaDevice::make_current() {
  return status_of(cudaSetDevice(index_), "cudaSetDevice", index_);
}

Result<std::shared_ptr<std::byte>> CudaDevice::allocate(MemoryKind kind, std::size_t bytes) {
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  void* memory = nullptr;
  const bool pinned = kind == MemoryKind::kPinned;
  const cudaError_t code = pinned ? cudaMallocHost(&memory, bytes) : cudaMalloc(&memory, bytes);
  (void)cudaGetLastError();  // clear it: callers go on without this memory
  RONDE_RETURN_IF_ERROR(status_of(code, pinned ? "cudaMallocHost" : "cudaMalloc", index_)
                            .with_context(fmt::format("no {} memory for {} bytes",
                                                      pinned ? "pinned" : "device", bytes)));
  auto* begin = static_cast<std::byte*>(memory);
  if (!pinned) return std::shared_ptr<std::byte>(begin, &free_device);
  return std::shared_ptr<std::byte>(
      begin, [device = index_](std::byte* freed) { free_pinned(freed, device); });
}

Result<DeviceStream> CudaDevice::open_stream() {
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  int least = 0;
  int greatest = 0;
  RONDE_RETURN_IF_ERROR(status_of(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                  "cudaDeviceGetStreamPriorityRange", index_));
  cudaStream_t stream = nullptr;
  RONDE_RETURN_IF_ERROR(
      status_of(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                "cudaStreamCreateWithPriority", index_));
  const MutexLock lock(mutex_);
  streams_.push_back(stream);
  return DeviceStream(stream);
}

Status CudaDevice::copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) {
  if (bytes == 0) return {};
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)),
                   "cudaMemcpyAsync", index_);
}

Status CudaDevice::transform(const BatchedCopy& work, DeviceStream stream) {
  if (!visit_types(work.from, work.to, []<typename From, typename To>() {})) {
    return {Code::kUnsupported,
            fmt::format("no kernel casts {} to {}", to_string(work.from), to_string(work.to))};
  }
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  return status_of(launch_copies(work, native(stream)), "the kernel of a fused copy", index_);
}

Result<DeviceEventPtr> CudaDevice::record(DeviceStream stream, EventUse use) {
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  cudaEvent_t handle = nullptr;
  const unsigned flags = use == EventUse::kTime ? cudaEventDefault : cudaEventDisableTiming;
  RONDE_RETURN_IF_ERROR(
      status_of(cudaEventCreateWithFlags(&handle, flags), "cudaEventCreateWithFlags", index_));
  auto event = std::make_shared<CudaEvent>(handle, index_);
  RONDE_RETURN_IF_ERROR(
      status_of(cudaEventRecord(handle, native(stream)), "cudaEventRecord", index_));
  return DeviceEventPtr(std::move(event));
}

Status CudaDevice::wait(DeviceStream stream, const DeviceEvent& event) {
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  const cudaEvent_t handle = static_cast<const CudaEvent&>(event).handle();
  return status_of(cudaStreamWaitEvent(native(stream), handle, 0), "cudaStreamWaitEvent", index_);
}

}  // namespace ronde::cuda
