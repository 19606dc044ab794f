// The one MPI of this process: its start, its end, and turns to call it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace ronde::mpi {

/// Owns the use of MPI in this process. MPI is global to a process, so this object lives until the
/// process ends. Threads: any.
class Library {
 public:
  static Library& instance();

  /// Ok if MPI can serve `ranks` ranks, else the reason why not. Never initialises MPI.
  Status viable(int ranks);

  /// Initialises MPI unless the program has. Errors: kUnavailable.
  Status start() RONDE_EXCLUDES(mutex_);

  /// Keeps memory that MPI may still access until the process ends. MPI is not finalised then, as
  /// that would wait for messages that never come.
  void abandon(std::unique_ptr<std::byte[]> memory) RONDE_EXCLUDES(mutex_);

  /// Says that a rank has failed. MPI is not finalised then: MPI_Finalize waits for all ranks, and
  /// PMIx may lose the word of the failure.
  void note_failure() RONDE_EXCLUDES(mutex_);

  /// Takes turns calling MPI where its thread level demands it, for a scope.
  class Turn {
   public:
    Turn() RONDE_NO_THREAD_SAFETY_ANALYSIS;
    ~Turn() RONDE_NO_THREAD_SAFETY_ANALYSIS;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Library& library_;
  };

 private:
  Library() = default;
  static void finalize();

  bool serialized_ = false;  // set by start(), before any turn is taken
  Mutex turn_;
  Mutex mutex_;
  bool started_ RONDE_GUARDED_BY(mutex_) = false;
  int owner_pid_ RONDE_GUARDED_BY(mutex_) = 0;  // 0 where the program initialised MPI
  bool failed_ RONDE_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<std::byte[]>> abandoned_ RONDE_GUARDED_BY(mutex_);
};

/// The error that MPI's return code stands for; MPI_SUCCESS is ok.
Status status_of(int code, const char* call);

/// MPI's type, or MPI_DATATYPE_NULL for the 16-bit floating types, which it lacks.
MPI_Datatype type_of(DType dtype) noexcept;

/// MPI's operation, or MPI_OP_NULL if it is not defined. Also MPI_OP_NULL if its result may differ
/// by more than rounding: minimum and maximum treat NaN otherwise.
MPI_Op operation_of(ReduceOp op, DType dtype) noexcept;

}  // namespace ronde::mpi
