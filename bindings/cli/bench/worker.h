// One rank of a measurement.
#pragma once

#include "bindings/cli/bench/options.h"
#include "core/base/config.h"

namespace ronde::bench {

/// Joins the job that `config` describes and measures; rank 0 prints. Collective over the job.
/// Errors: what kept it from measuring; kInternal for a wrong result.
Status run_worker(const Config& config, const Options& options);

}  // namespace ronde::bench
