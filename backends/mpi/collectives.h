// MPI's own collectives, for `--algorithm native` and for comparisons.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>

#include "backends/mpi/progress.h"
#include "core/ports/backend.h"

namespace ronde::mpi {

/// The work that MPI's collectives can do, blocking or not.
SupportTable supported();

/// Runs plain Work by MPI's non-blocking collectives on staging memory, so that an abort can leave
/// them behind. Threads: one at a time.
class MpiCollectives {
 public:
  /// The communicator outlives this.
  explicit MpiCollectives(MPI_Comm communicator);

  /// Errors: as Communicator::run.
  Status run(const Work& work, const AbortToken& abort);

 private:
  /// Starts one collective on staging memory.
  using Start = std::function<int(MPI_Request* request)>;

  Status reduce(const Work& work, const AbortToken& abort);
  Status broadcast(const Work& work, const AbortToken& abort);
  Status allgather(const Work& work, const AbortToken& abort);
  Status alltoall(const Work& work, const AbortToken& abort);
  /// The largest of all ranks' values.
  Result<std::size_t> agree_maximum(std::size_t mine, const AbortToken& abort);
  Status complete(const Start& start, const AbortToken& abort);

  const MPI_Comm communicator_;
  int rank_ = 0;
  int size_ = 1;
  Staging in_;
  Staging out_;
};

/// Runs plain Work by MPI's blocking collectives on the user's memory, which no abort can reach:
/// MPI at its best, for measurements. One segment with both addresses, no scaling. Errors:
/// kUnsupported for other Work; kRankFailure.
Status run_direct(MPI_Comm communicator, const Work& work);

}  // namespace ronde::mpi
