// Tells a process that belongs to a job, but has lost the variables that say so.
#pragma once

#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde {

/// Errors: kInvalidArgument with a remedy if the process descends from an agent of `ronde run`, but
/// neither `config` nor `environment` says of which job it is. It would train alone.
Status check_job_is_known(const Config& config, const Environment& environment);

}  // namespace ronde
