// Element-wise arithmetic with SIMD, chosen at run time for this CPU.
#pragma once

#include <memory>
#include <string>

#include "core/ports/reduce_kernels.h"

namespace ronde {

/// The kernels that backends are given. Stateless: one object serves a process.
std::shared_ptr<const ReduceKernels> create_kernels();

/// The instruction set they use here, such as "AVX2", "AVX-512" or "NEON".
std::string kernels_target();

}  // namespace ronde
