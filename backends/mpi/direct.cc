// MPI's blocking collectives on user memory: the peer that measurements compare with.
#include <climits>
#include <vector>

#include "backends/mpi/collectives.h"
#include "backends/mpi/library.h"

namespace ronde::mpi {
namespace {

struct Layout {
  explicit Layout(std::span<const std::size_t> parts) {
    int at = 0;
    for (const std::size_t part : parts) {
      counts.push_back(static_cast<int>(part));
      offsets.push_back(at);
      at += static_cast<int>(part);
    }
  }
  std::vector<int> counts;
  std::vector<int> offsets;
};

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

int reduce(MPI_Comm communicator, const Work& work, const Segment& data) {
  const DType dtype = work.reduction.dtype;
  const MPI_Op op = operation_of(work.reduction.op, dtype);
  const auto count = static_cast<int>(data.bytes / size_of(dtype));
  const void* in = data.in == data.out ? MPI_IN_PLACE : data.in;
  if (work.kind == Collective::kAllreduce) {
    return MPI_Allreduce(in, data.out, count, type_of(dtype), op, communicator);
  }
  if (rank_in(communicator) != work.root) in = data.in;
  return MPI_Reduce(in, data.out, count, type_of(dtype), op, work.root, communicator);
}

int broadcast(MPI_Comm communicator, const Work& work, const Segment& data) {
  const bool root = rank_in(communicator) == work.root;
  auto* buffer = root ? const_cast<std::byte*>(data.in) : data.out;
  return MPI_Bcast(buffer, static_cast<int>(data.bytes), MPI_BYTE, work.root, communicator);
}

int allgather(MPI_Comm communicator, const Work& work, const Segment& data) {
  const Layout layout(work.chunk_bytes);
  const int mine = layout.counts[static_cast<std::size_t>(rank_in(communicator))];
  return MPI_Allgatherv(data.in, mine, MPI_BYTE, data.out, layout.counts.data(),
                        layout.offsets.data(), MPI_BYTE, communicator);
}

int alltoall(MPI_Comm communicator, const Work& work, const Segment& data) {
  const Layout out(work.send_bytes);
  const Layout in(work.recv_bytes);
  return MPI_Alltoallv(data.in, out.counts.data(), out.offsets.data(), MPI_BYTE, data.out,
                       in.counts.data(), in.offsets.data(), MPI_BYTE, communicator);
}

int run_kind(MPI_Comm communicator, const Work& work) {
  if (work.kind == Collective::kBarrier) return MPI_Barrier(communicator);
  const Segment& data = work.segments.front();
  switch (work.kind) {
    case Collective::kBroadcast:
      return broadcast(communicator, work, data);
    case Collective::kAllgather:
      return allgather(communicator, work, data);
    case Collective::kAlltoall:
      return alltoall(communicator, work, data);
    default:
      return reduce(communicator, work, data);
  }
}

}  // namespace

Status run_direct(MPI_Comm communicator, const Work& work) {
  const bool scaled = work.reduction.scaling.pre != 1.0 || work.reduction.scaling.post != 1.0;
  const std::size_t segments = work.kind == Collective::kBarrier ? 0 : 1;
  if (scaled || work.segments.size() != segments || total_bytes(work) > INT_MAX) {
    return {Code::kUnsupported, "unprotected MPI takes one unscaled segment of at most 2 GiB"};
  }
  const Library::Turn turn;
  return status_of(run_kind(communicator, work), "MPI's collective");
}

}  // namespace ronde::mpi
