// How the failure of a job travels from the rank that met it to all others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// The payload that carries `status` with the rank it is about; its message is cut at 4 KiB.
std::vector<std::byte> make_failure(const Status& status);

/// Reads such a payload into `failure`. Errors: kInvalidArgument where it is malformed.
Status read_failure(std::span<const std::byte> payload, Status& failure);

}  // namespace ronde
