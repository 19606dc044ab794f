// Reduction kernels as simple as can be: what vectorised kernels and data planes are tested
// against.
#pragma once

#include <memory>

#include "core/ports/reduce_kernels.h"

namespace ronde::test {

/// One element at a time, exactly as core/ports/reduce_kernels.h says.
std::shared_ptr<const ReduceKernels> plain_kernels();

}  // namespace ronde::test
