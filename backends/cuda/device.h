// A device over the CUDA runtime: its memory and streams, and its codecs.
#pragma once

#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/device_codecs.h"
#include "core/ports/device_ops.h"

namespace ronde::cuda {

/// The codecs of one CUDA device. Threads: any.
class CudaCodecs final : public DeviceCodecs {
 public:
  explicit CudaCodecs(int device) noexcept : device_(device) {}
  Status encode(const EncodeWork& work, DeviceStream stream) override;
  Status decode(const DecodeWork& work, DeviceStream stream) override;
  Status commit(std::span<const CommitRun> runs, DeviceStream stream) override;
  [[nodiscard]] std::size_t select_scratch(std::size_t count) const noexcept override;
  Status select(const SelectWork& work, DeviceStream stream) override;
  Status scatter(const ScatterWork& work, DeviceStream stream) override;

 private:
  const int device_;
};

/// One CUDA device. Only make_current() changes the calling thread's current device. Memory and
/// events may outlive it. Threads: any.
class CudaDevice final : public DeviceOps {
 public:
  explicit CudaDevice(int index) noexcept : index_(index), codecs_(index) {}
  /// Destroys its streams. Work that was queued on them still runs to its end.
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  [[nodiscard]] int index() const noexcept override { return index_; }
  Status make_current() override;
  Result<std::shared_ptr<std::byte>> allocate(MemoryKind kind, std::size_t bytes) override;
  Result<DeviceStream> open_stream() override RONDE_EXCLUDES(mutex_);
  Status copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) override;
  Status transform(const BatchedCopy& work, DeviceStream stream) override;
  using DeviceOps::record;
  Result<DeviceEventPtr> record(DeviceStream stream, EventUse use) override;
  Status wait(DeviceStream stream, const DeviceEvent& event) override;
  [[nodiscard]] DeviceCodecs* codecs() noexcept override { return &codecs_; }

 private:
  const int index_;
  CudaCodecs codecs_;
  Mutex mutex_;
  std::vector<DeviceStream> streams_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::cuda
