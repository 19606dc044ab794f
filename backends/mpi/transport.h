// Ronde's point-to-point over MPI_Isend and MPI_Irecv.
#pragma once

#include <mpi.h>

#include <unordered_map>
#include <vector>

#include "backends/mpi/progress.h"
#include "core/ports/transport.h"

namespace ronde::mpi {

/// MPI keeps the order of one pair's messages by itself. Long messages travel in pieces, as MPI
/// counts in int. Threads: one at a time.
class MpiTransport final : public Transport {
 public:
  /// The communicator outlives the transport.
  MpiTransport(MPI_Comm communicator, int rank, int size)
      : communicator_(communicator), rank_(rank), size_(size) {}
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  struct Transfer {
    Staging staging;
    std::span<std::byte> destination;  // recv: where it goes in the end
    std::vector<MPI_Request> requests;
  };
  enum class Direction : bool { kSend, kRecv };

  Staging take_staging(std::size_t bytes);
  void keep_staging(Staging staging);
  Result<TransferId> post(Transfer transfer, int peer, std::size_t bytes, Direction direction);

  const MPI_Comm communicator_;
  const int rank_;
  const int size_;
  TransferId next_id_ = 1;
  std::unordered_map<TransferId, Transfer> transfers_;
  std::vector<Staging> spare_;
};

}  // namespace ronde::mpi
