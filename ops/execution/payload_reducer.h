// Implements core/ports/payload_reducer.h with the kernels.
#pragma once

#include <memory>

#include "core/ports/payload_reducer.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// Makes a reducer.
std::unique_ptr<PayloadReducer> create_payload_reducer(
    std::shared_ptr<const ReduceKernels> kernels);

}  // namespace ronde
