// MPI's names of Ronde's element types and reduce operations.
#pragma once

#include <mpi.h>

#include "core/base/dtype.h"

namespace ronde::mpi {

/// MPI's type, or MPI_DATATYPE_NULL for the 16-bit floating types, which it lacks.
MPI_Datatype type_of(DType dtype) noexcept;

/// MPI's operation, or MPI_OP_NULL if it is not defined. Also MPI_OP_NULL if its result may differ
/// by more than rounding: minimum and maximum treat NaN otherwise.
MPI_Op operation_of(ReduceOp op, DType dtype) noexcept;

}  // namespace ronde::mpi
