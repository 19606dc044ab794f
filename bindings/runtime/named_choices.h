// The settings whose allowed values are the names in registries outside core.
#pragma once

#include "core/base/config.h"
#include "core/base/status.h"

namespace ronde {

/// Checks the names of the backend, the algorithm and the codec.
/// Errors: kInvalidArgument naming the variable, its value and what is allowed.
Status check_named_choices(const Config& config);

}  // namespace ronde
