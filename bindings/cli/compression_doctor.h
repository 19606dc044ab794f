// `ronde doctor --compression`: the choice of `auto`, and its reasons.
#pragma once

#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde {

/// Prints the speed of encoding and decoding on one core, and the choices for links of common
/// speeds. In a job (`ronde run ... -- ronde doctor --compression`) all ranks measure their link
/// too, by allreduces of several sizes, and rank 0 prints the choices.
/// Errors: the job's.
Status examine_compression(const Config& config);

}  // namespace ronde
