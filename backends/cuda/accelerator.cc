#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <utility>

#include "backends/cuda/calls.h"
#include "backends/cuda/device.h"
#include "backends/cuda/factory.h"
#include "core/base/mutex.h"
#include "core/base/settings/config.h"

namespace ronde {
namespace {

/// CUDA's version numbers: 13000 is 13.0.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status no_device(cudaError_t code) {
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    return {Code::kUnavailable,
            fmt::format("the NVIDIA driver is too old: it knows CUDA {}, this build is for CUDA {}",
                        version_text(driver), version_text(CUDART_VERSION))};
  }
  if (code != cudaErrorNoDevice) return cuda::status_of(code, "cudaGetDeviceCount", -1);
  const auto visible = process_environment()("CUDA_VISIBLE_DEVICES");
  return {Code::kUnavailable,
          "no CUDA device is visible" +
              (visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *visible) : std::string())};
}

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(std::string driver) : driver_(std::move(driver)) {}

  std::string_view name() const noexcept override { return "cuda"; }

  Result<int> count() override {
    // Not unloaded: the driver keeps threads and exit handlers.
    if (dlopen(driver_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) {
      return Status(Code::kUnavailable, fmt::format("no NVIDIA driver: {} not found", driver_));
    }
    int devices = 0;
    const cudaError_t code = cudaGetDeviceCount(&devices);
    if (code != cudaSuccess) return no_device(code);
    if (devices == 0) return no_device(cudaErrorNoDevice);
    return devices;
  }

  Result<std::string> describe(int index) override {
    RONDE_RETURN_IF_ERROR(check(index));
    cudaDeviceProp properties{};
    RONDE_RETURN_IF_ERROR(cuda::status_of(cudaGetDeviceProperties(&properties, index),
                                          "cudaGetDeviceProperties", index));
    return fmt::format("{}, {} GiB, sm_{}{}", properties.name, properties.totalGlobalMem >> 30,
                       properties.major, properties.minor);
  }

  Result<std::shared_ptr<DeviceOps>> open(int index) override RONDE_EXCLUDES(mutex_) {
    RONDE_RETURN_IF_ERROR(check(index));
    const MutexLock lock(mutex_);
    std::shared_ptr<DeviceOps>& device = devices_[index];
    if (!device) device = std::make_shared<cuda::CudaDevice>(index);
    return device;
  }

 private:
  Status check(int index) {
    RONDE_ASSIGN_OR_RETURN(const int devices, count());
    if (index >= 0 && index < devices) return {};
    return {Code::kInvalidArgument,
            fmt::format("there is no device cuda:{}; allowed: 0 to {}", index, devices - 1)};
  }

  const std::string driver_;
  Mutex mutex_;
  std::map<int, std::shared_ptr<DeviceOps>> devices_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Accelerator> create_cuda_accelerator(std::string driver) {
  return std::make_unique<CudaAccelerator>(std::move(driver));
}

}  // namespace ronde
