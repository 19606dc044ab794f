// Work of a group of one rank: copies and scaling, no data plane.
#pragma once

#include "core/ports/backend.h"

namespace ronde {

/// Does `work`, whose group has one rank: every output is the input, scaled where the kind reduces.
void run_local(const Work& work, const ReduceKernels& kernels);

}  // namespace ronde
