// NVIDIA GPUs, through the CUDA runtime (linked statically; the driver is found at run time).
#pragma once

#include <memory>
#include <string>

#include "core/ports/device_ops.h"

namespace ronde {

/// The accelerator "cuda". It calls CUDA only in count(), describe() and open(). `driver`: the
/// library of NVIDIA's driver; errors name it where it is missing.
std::unique_ptr<Accelerator> create_cuda_accelerator(std::string driver = "libcuda.so.1");

}  // namespace ronde
