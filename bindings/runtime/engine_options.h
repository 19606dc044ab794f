// The settings of the engine, as Config and the job's ranks have them.
#pragma once

#include "core/base/config.h"
#include "core/engine/engine.h"
#include "core/ports/topology.h"

namespace ronde {

/// Options without the parts that the engine works with. `cores`: of this host.
EngineOptions engine_options(const Config& config, const Topology& topology, unsigned cores);

}  // namespace ronde
