// MPI's point-to-point and its collectives.
#pragma once

#include <memory>

#include "core/ports/backend.h"
#include "core/ports/backend_module.h"

namespace ronde {

/// A backend called "mpi". Uses MPI as the program has initialised it, at any thread level.
/// Otherwise it initialises MPI with the first group and finalises it as the process exits. Below
/// MPI_THREAD_MULTIPLE its calls take turns under one lock, but the program's own calls must not
/// run while operations of Ronde are in flight.
std::unique_ptr<Backend> create_mpi_backend(const ModuleOptions& options);

}  // namespace ronde
