// The settings of a process's job: if those that name it are lost, if their names exist, and the
// engine that follows from them.
#pragma once

#include "core/base/settings/config.h"
#include "core/base/status.h"

namespace ronde {

struct EngineOptions;
struct Topology;

/// Errors: kInvalidArgument with a remedy if the process descends from an agent of `ronde run`, but
/// neither `config` nor `environment` says of which job it is. It would train alone.
Status check_job_is_known(const Config& config, const Environment& environment);

/// Checks the names of the backend, the algorithm and the codec.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status check_named_choices(const Config& config);

/// Options without the parts that the engine works with. `cores`: of this host.
EngineOptions engine_options(const Config& config, const Topology& topology, unsigned cores);

}  // namespace ronde
