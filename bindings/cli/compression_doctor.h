// `ronde doctor --compression`: what `auto` would choose, and why.
#pragma once

#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde {

/// Prints how fast this machine encodes and decodes, on one core, and what would be chosen over
/// links of common speeds. In a job (`ronde run ... -- ronde doctor --compression`) all ranks
/// measure their link too, by allreduces of several sizes, and rank 0 prints what was chosen.
/// Errors: the job's.
Status examine_compression(const Config& config);

}  // namespace ronde
