#include "backends/mpi/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/mpi/library.h"

namespace ronde::mpi {
namespace {

// MPI counts in int; staging memory should not grow with the tensor.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

/// The bytes of one round of a collective with uneven chunks: at most `limit` of each.
struct Round {
  Round(std::span<const std::size_t> parts, std::size_t done, std::size_t limit) {
    std::size_t position = 0;
    for (const std::size_t part : parts) {
      const std::size_t now = part > done ? std::min(part - done, limit) : 0;
      sources.push_back(position + std::min(done, part));
      counts.push_back(static_cast<int>(now));
      offsets.push_back(static_cast<int>(total));
      total += now;
      position += part;
    }
  }
  std::vector<std::size_t> sources;  // where each piece is in the user's memory
  std::vector<int> counts;
  std::vector<int> offsets;  // where each piece is in staging memory
  std::size_t total = 0;
};

void pack(const Round& round, const std::byte* from, std::byte* to) {
  for (std::size_t r = 0; r < round.counts.size(); ++r) {
    if (round.counts[r] == 0) continue;
    std::memcpy(to + round.offsets[r], from + round.sources[r],
                static_cast<std::size_t>(round.counts[r]));
  }
}

void unpack(const Round& round, const std::byte* from, std::byte* to) {
  for (std::size_t r = 0; r < round.counts.size(); ++r) {
    if (round.counts[r] == 0) continue;
    std::memcpy(to + round.sources[r], from + round.offsets[r],
                static_cast<std::size_t>(round.counts[r]));
  }
}

std::size_t largest(std::span<const std::size_t> values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace

SupportTable supported() {
  return SupportTable::of([](Collective kind, DType dtype, ReduceOp op) {
    switch (kind) {
      case Collective::kAllreduce:
      case Collective::kReduce:
        return type_of(dtype) != MPI_DATATYPE_NULL && operation_of(op, dtype) != MPI_OP_NULL;
      case Collective::kBroadcast:
      case Collective::kAllgather:
      case Collective::kAlltoall:
      case Collective::kBarrier:
        return true;
      default:
        return false;
    }
  });
}

MpiCollectives::MpiCollectives(MPI_Comm communicator) : communicator_(communicator) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
}

Status MpiCollectives::run(const Work& work, const AbortToken& abort) {
  switch (work.kind) {
    case Collective::kAllreduce:
    case Collective::kReduce:
      return reduce(work, abort);
    case Collective::kBroadcast:
      return broadcast(work, abort);
    case Collective::kAllgather:
      return allgather(work, abort);
    case Collective::kAlltoall:
      return alltoall(work, abort);
    default:
      return complete([&](MPI_Request* request) { return MPI_Ibarrier(communicator_, request); },
                      abort);
  }
}

Status MpiCollectives::complete(const Start& start, const AbortToken& abort) {
  MPI_Request request = MPI_REQUEST_NULL;
  Status status;
  {
    const Library::Turn turn;
    status = status_of(start(&request), "MPI's collective");
  }
  if (status.ok()) status = wait_all({&request, 1}, abort);
  if (!status.ok()) {
    in_.abandon();
    out_.abandon();
  }
  return status;
}

Status MpiCollectives::reduce(const Work& work, const AbortToken& abort) {
  const DType dtype = work.reduction.dtype;
  const MPI_Op op = operation_of(work.reduction.op, dtype);
  const Segment& data = work.segments.front();
  const bool keeps = !traits_of(work.kind).output.root_only || work.root == rank_;
  for (std::size_t done = 0; done < data.bytes; done += kPieceBytes) {
    const std::size_t bytes = std::min(data.bytes - done, kPieceBytes);
    in_.reserve(bytes);
    out_.reserve(bytes);
    std::memcpy(in_.data(), data.in + done, bytes);
    const auto start = [&](MPI_Request* request) {
      const auto count = static_cast<int>(bytes / size_of(dtype));
      if (work.kind == Collective::kAllreduce) {
        return MPI_Iallreduce(in_.data(), out_.data(), count, type_of(dtype), op, communicator_,
                              request);
      }
      return MPI_Ireduce(in_.data(), out_.data(), count, type_of(dtype), op, work.root,
                         communicator_, request);
    };
    RONDE_RETURN_IF_ERROR(complete(start, abort));
    if (keeps) std::memcpy(data.out + done, out_.data(), bytes);
  }
  return {};
}

Status MpiCollectives::broadcast(const Work& work, const AbortToken& abort) {
  const Segment& data = work.segments.front();
  const bool root = work.root == rank_;  // the caller makes the root's own copy
  for (std::size_t done = 0; done < data.bytes; done += kPieceBytes) {
    const std::size_t bytes = std::min(data.bytes - done, kPieceBytes);
    in_.reserve(bytes);
    if (root) std::memcpy(in_.data(), data.in + done, bytes);
    const auto start = [&](MPI_Request* request) {
      return MPI_Ibcast(in_.data(), static_cast<int>(bytes), MPI_BYTE, work.root, communicator_,
                        request);
    };
    RONDE_RETURN_IF_ERROR(complete(start, abort));
    if (!root) std::memcpy(data.out + done, in_.data(), bytes);
  }
  return {};
}

Status MpiCollectives::allgather(const Work& work, const AbortToken& abort) {
  const auto size = static_cast<std::size_t>(size_);
  const auto me = static_cast<std::size_t>(rank_);
  const auto& parts = work.chunk_bytes;
  const Segment& data = work.segments.front();
  const std::byte* input = data.in;
  std::vector<std::byte> copy;  // an input inside the output would be overwritten between rounds
  if (input >= data.out && input < data.out + data.bytes) {
    copy.assign(input, input + parts[me]);
    input = copy.data();
  }
  for (std::size_t done = 0; done < largest(parts); done += kPieceBytes / size) {
    const Round round(parts, done, kPieceBytes / size);
    in_.reserve(round.total);
    out_.reserve(round.total);
    const auto mine = static_cast<std::size_t>(round.counts[me]);
    if (mine > 0) std::memcpy(in_.data(), input + done, mine);
    const auto start = [&](MPI_Request* request) {
      return MPI_Iallgatherv(in_.data(), round.counts[me], MPI_BYTE, out_.data(),
                             round.counts.data(), round.offsets.data(), MPI_BYTE, communicator_,
                             request);
    };
    RONDE_RETURN_IF_ERROR(complete(start, abort));
    unpack(round, out_.data(), data.out);
  }
  return {};
}

Result<std::size_t> MpiCollectives::agree_maximum(std::size_t mine, const AbortToken& abort) {
  in_.reserve(sizeof(std::uint64_t));
  out_.reserve(sizeof(std::uint64_t));
  std::uint64_t value = mine;
  std::memcpy(in_.data(), &value, sizeof value);
  const auto start = [&](MPI_Request* request) {
    return MPI_Iallreduce(in_.data(), out_.data(), 1, MPI_UINT64_T, MPI_MAX, communicator_,
                          request);
  };
  RONDE_RETURN_IF_ERROR(complete(start, abort));
  std::memcpy(&value, out_.data(), sizeof value);
  return static_cast<std::size_t>(value);
}

Status MpiCollectives::alltoall(const Work& work, const AbortToken& abort) {
  const std::size_t step = kPieceBytes / static_cast<std::size_t>(size_);
  const Segment& data = work.segments.front();
  const std::size_t sent =
      std::accumulate(work.send_bytes.begin(), work.send_bytes.end(), std::size_t{0});
  std::vector<std::byte> copy;  // in place, later rounds would read what earlier ones wrote
  const std::byte* input = data.in;
  if (input != nullptr && input == data.out) {
    copy.assign(input, input + sent);
    input = copy.data();
  }
  RONDE_ASSIGN_OR_RETURN(const std::size_t longest, agree_maximum(largest(work.send_bytes), abort));
  for (std::size_t done = 0; done < longest; done += step) {
    const Round out(work.send_bytes, done, step);
    const Round in(work.recv_bytes, done, step);
    in_.reserve(out.total);
    out_.reserve(in.total);
    pack(out, input, in_.data());
    const auto start = [&](MPI_Request* request) {
      return MPI_Ialltoallv(in_.data(), out.counts.data(), out.offsets.data(), MPI_BYTE,
                            out_.data(), in.counts.data(), in.offsets.data(), MPI_BYTE,
                            communicator_, request);
    };
    RONDE_RETURN_IF_ERROR(complete(start, abort));
    unpack(in, out_.data(), data.out);
  }
  return {};
}

}  // namespace ronde::mpi
