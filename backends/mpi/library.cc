#include "backends/mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/settings/config.h"

namespace ronde::mpi {
namespace {

bool flag_of(int (*question)(int*)) {
  int flag = 0;
  question(&flag);
  return flag != 0;
}

/// True if some MPI launcher started this process.
bool launched() {
  const Environment environment = process_environment();
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (environment(name)) return true;
  }
  return false;
}

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

Library& Library::instance() {
  static auto* library = new Library;  // never destroyed: MPI may use abandoned memory
  return *library;
}

Status Library::viable(int ranks) {
  if (flag_of(MPI_Finalized)) return {Code::kUnavailable, "MPI was finalised in this process"};
  if (!flag_of(MPI_Initialized)) {
    if (ranks == 1 || launched()) return {};
    return {Code::kUnavailable, "this process was not started by mpirun (or srun)"};
  }
  int world = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (world >= ranks) return {};
  return {Code::kUnavailable, fmt::format("MPI's world has {} processes, the group {}: start all "
                                          "of them by one mpirun",
                                          world, ranks)};
}

Status Library::start() {
  const MutexLock lock(mutex_);
  if (started_) return {};
  if (flag_of(MPI_Finalized)) return {Code::kUnavailable, "MPI was finalised in this process"};
  int level = MPI_THREAD_SINGLE;
  if (flag_of(MPI_Initialized)) {
    MPI_Query_thread(&level);
  } else {
    RONDE_RETURN_IF_ERROR(
        status_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init"));
    owner_pid_ = getpid();
    std::atexit(&Library::finalize);
  }
  serialized_ = level < MPI_THREAD_MULTIPLE;
  started_ = true;
  return {};
}

void Library::abandon(std::unique_ptr<std::byte[]> memory) {
  const MutexLock lock(mutex_);
  abandoned_.push_back(std::move(memory));
}

void Library::note_failure() {
  const MutexLock lock(mutex_);
  failed_ = true;
}

void Library::finalize() {
  Library& library = instance();
  const MutexLock lock(library.mutex_);
  const bool forked = library.owner_pid_ != getpid();
  if (forked || library.failed_ || !library.abandoned_.empty() || flag_of(MPI_Finalized)) return;
  MPI_Finalize();
}

Library::Turn::Turn() : library_(instance()) {
  if (library_.serialized_) library_.turn_.lock();
}

Library::Turn::~Turn() {
  if (library_.serialized_) library_.turn_.unlock();
}

Status status_of(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {Code::kRankFailure,
          fmt::format("{}: {}", call, std::string(text.data(), static_cast<std::size_t>(length)))};
}

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
    case DType::kUint16:
      return MPI_UINT16_T;
    case DType::kUint32:
      return MPI_UINT32_T;
    case DType::kUint64:
      return MPI_UINT64_T;
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
