// Makes the public Group from the runtime's.
#pragma once

#include <memory>

#include "bindings/runtime/raw_group.h"
#include "bindings/runtime/runtime.h"
#include "ronde/ronde.h"

namespace ronde {

/// The group keeps `runtime` alive.
Group make_group(std::unique_ptr<RawGroup> group, std::shared_ptr<Runtime> runtime);

}  // namespace ronde
