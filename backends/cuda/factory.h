// NVIDIA GPUs, through the CUDA runtime (linked statically; the driver is found at run time).
#pragma once

#include <memory>
#include <string>

#include "core/ports/device_ops.h"

namespace ronde {

/// The accelerator "cuda". Nothing is asked of CUDA before count(), describe() or open().
/// `driver` is the driver's library, without which CUDA's own words say too little.
std::unique_ptr<Accelerator> create_cuda_accelerator(std::string driver = "libcuda.so.1");

}  // namespace ronde
