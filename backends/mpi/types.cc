#include "backends/mpi/types.h"

namespace ronde::mpi {
namespace {

/// bool: sums and maxima are "or", products and minima are "and".
MPI_Op logical_operation(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return MPI_LOR;
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return MPI_LAND;
    case ReduceOp::kBitXor:
      return MPI_LXOR;
    default:
      return MPI_OP_NULL;
  }
}

MPI_Op integer_operation(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kBitAnd:
      return MPI_BAND;
    case ReduceOp::kBitOr:
      return MPI_BOR;
    case ReduceOp::kBitXor:
      return MPI_BXOR;
    default:
      return MPI_OP_NULL;
  }
}

}  // namespace

MPI_Datatype type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
      return MPI_UINT8_T;
    case DType::kInt8:
      return MPI_INT8_T;
    case DType::kInt16:
      return MPI_INT16_T;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kBool:
      return MPI_C_BOOL;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op operation_of(ReduceOp op, DType dtype) noexcept {
  if (dtype == DType::kBool) return logical_operation(op);
  if (op == ReduceOp::kSum) return MPI_SUM;
  if (op == ReduceOp::kProduct) return MPI_PROD;
  return is_floating(dtype) ? MPI_OP_NULL : integer_operation(op);
}

}  // namespace ronde::mpi
