// Ronde's element types and reduce operations in MPI's words.
#pragma once

#include <mpi.h>

#include "core/base/dtype.h"

namespace ronde::mpi {

/// MPI's type, or MPI_DATATYPE_NULL for the 16-bit floating types, which it lacks.
MPI_Datatype type_of(DType dtype) noexcept;

/// MPI's operation, or MPI_OP_NULL where its result may differ from Ronde's in more than rounding
/// (the minimum and maximum of NaN) or it is not defined.
MPI_Op operation_of(ReduceOp op, DType dtype) noexcept;

}  // namespace ronde::mpi
