#include "backends/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>

#include "backends/cuda/calls.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/table_launches.h"

namespace ronde::cuda {
namespace {

EncodeEntry entry_of(const EncodeRun& run) {
  return {.values = run.values,
          .residual = run.residual,
          .lost = run.lost,
          .added = reinterpret_cast<const std::uint8_t*>(run.added),
          .frame = reinterpret_cast<std::uint8_t*>(run.frame),
          .count = run.count,
          .offset = run.offset,
          .first_tile = 0,
          .key = run.key};
}
DecodeEntry entry_of(const DecodeRun& run) {
  return {reinterpret_cast<const std::uint8_t*>(run.frame), run.out, run.flag, run.count, 0};
}
TopEntry entry_of(const SelectRun& run) {
  auto* const selection = reinterpret_cast<Selection*>(run.scratch);
  return {{.values = run.values,
           .factor = static_cast<float>(run.factor),
           .residual = run.residual,
           .left = run.left,
           .count = run.count,
           .k = run.most,
           .selection = selection,
           .chunks = reinterpret_cast<Counts*>(selection + 1),
           .indices = run.indices,
           .chosen = run.chosen,
           .found = run.found},
          0};
}
ScatterEntry entry_of(const ScatterRun& run) {
  return {run.indices, run.values, run.out, run.flag, run.count, 0};
}
CommitEntry entry_of(const CommitRun& run) { return {run.from, run.to, run.flag, run.count, 0}; }

/// Launches all runs on the device. Errors: CUDA's.
template <typename Small, typename Large, typename Run, typename Launch>
Status launch_all(int device, std::span<const Run> runs, const typename Small::Traits& traits,
                  std::size_t tile, const Launch& launch) {
  const CurrentDevice current(device);
  RONDE_RETURN_IF_ERROR(current.status());
  const auto entry = [](const Run& run) { return entry_of(run); };
  return status_of(launch_tables<Small, Large>(runs, traits, tile, entry, launch),
                   "a kernel of compression", device);
}

Status check(DType dtype) {
  if (visit_floating(dtype, []<typename Element>() {})) return {};
  return {Code::kUnsupported, fmt::format("no kernel compresses {}", to_string(dtype))};
}

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

bool has_kernel(DType from, DType to) {
  return visit_types(from, to, []<typename From, typename To>() {});
}

}  // namespace

Status CudaCodecs::encode(const EncodeWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.from));
  const EncodeTraits traits{work.code, static_cast<float>(work.factor),
                            static_cast<unsigned>(work.added_frames), work.added_stride};
  return launch_all<SmallEncodeTable, LargeEncodeTable>(
      device_, work.runs, traits, encoded_tile(work.code),
      [&](const auto& table, std::size_t tiles) {
        return launch_encode(table, work.from, tiles, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::decode(const DecodeWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.to));
  return launch_all<SmallDecodeTable, LargeDecodeTable>(
      device_, work.runs, {work.code}, decoded_tile(work.code),
      [&](const auto& table, std::size_t tiles) {
        return launch_decode(table, work.to, tiles, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::commit(std::span<const CommitRun> runs, DeviceStream stream) {
  return launch_all<SmallCommitTable, LargeCommitTable>(
      device_, runs, {}, kTileElements, [&](const auto& table, std::size_t tiles) {
        return launch_commit(table, tiles, static_cast<cudaStream_t>(stream));
      });
}

std::size_t CudaCodecs::select_scratch(std::size_t count) const noexcept {
  return sizeof(Selection) + tiles_of(count, kChunk) * sizeof(Counts);
}

Status CudaCodecs::select(const SelectWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.from));
  return launch_all<SmallTopTable, LargeTopTable>(
      device_, work.runs, {}, kTopTile, [&](const auto& table, std::size_t blocks) {
        return launch_select(table, work.from, blocks, static_cast<cudaStream_t>(stream));
      });
}

Status CudaCodecs::scatter(const ScatterWork& work, DeviceStream stream) {
  RONDE_RETURN_IF_ERROR(check(work.to));
  return launch_all<SmallScatterTable, LargeScatterTable>(
      device_, work.runs, {work.adds}, kScatterTile, [&](const auto& table, std::size_t tiles) {
        return launch_scatter(table, work.to, tiles, static_cast<cudaStream_t>(stream));
      });
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
  if (!has_kernel(work.from, work.to)) {
    return {Code::kUnsupported,
            fmt::format("no kernel casts {} to {}", to_string(work.from), to_string(work.to))};
  }
  const bool plain = work.from == work.to && work.scale == 1.0;
  const std::size_t unit = plain ? size_of(work.from) : 1;  // plain copies count bytes
  const CurrentDevice current(index_);
  RONDE_RETURN_IF_ERROR(current.status());
  const cudaError_t code = launch_tables<SmallCopyTable, LargeCopyTable>(
      work.copies, {work.scale}, plain ? kTileBytes : kTileElements,
      [unit](const DeviceCopy& copy) {
        return CopyEntry{copy.in, copy.out, copy.count * unit, 0};
      },
      [&](const auto& table, std::size_t tiles) {
        return launch_copies({work.from, work.to, plain, tiles}, table, native(stream));
      });
  return status_of(code, "the kernel of a fused copy", index_);
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
