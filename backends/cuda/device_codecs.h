// Launches the kernels of codecs.h, top.h and scatter.h.
#pragma once

#include "core/ports/device_codecs.h"

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

}  // namespace ronde::cuda
