#include "backends/mpi/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/mpi/library.h"

namespace ronde::mpi {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 30;
constexpr std::size_t kSpareBuffers = 8;
constexpr int kTag = 1;

}  // namespace

MpiTransport::~MpiTransport() {
  for (auto& [id, transfer] : transfers_) transfer.staging.abandon();
}

Staging MpiTransport::take_staging(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(),
                                 [&](const Staging& each) { return each.capacity() >= bytes; });
  if (fits == spare_.end()) return Staging(std::max(bytes, std::size_t{1}));
  Staging found = std::move(*fits);
  spare_.erase(fits);
  return found;
}

void MpiTransport::keep_staging(Staging staging) {
  if (spare_.size() == kSpareBuffers) spare_.erase(spare_.begin());
  spare_.push_back(std::move(staging));
}

Result<TransferId> MpiTransport::send(int to, std::span<const std::byte> data) {
  Transfer transfer{take_staging(data.size()), {}, {}};
  if (!data.empty()) std::memcpy(transfer.staging.data(), data.data(), data.size());
  return post(std::move(transfer), to, data.size(), Direction::kSend);
}

Result<TransferId> MpiTransport::recv(int from, std::span<std::byte> data) {
  return post({take_staging(data.size()), data, {}}, from, data.size(), Direction::kRecv);
}

Result<TransferId> MpiTransport::post(Transfer transfer, int peer, std::size_t bytes,
                                      Direction direction) {
  std::byte* at = transfer.staging.data();
  std::size_t left = bytes;
  do {  // no bytes are a message too
    const auto piece = std::min(left, kMessageBytes);
    const auto count = static_cast<int>(piece);
    MPI_Request& request = transfer.requests.emplace_back(MPI_REQUEST_NULL);
    const Library::Turn turn;
    const int code = direction == Direction::kSend
                         ? MPI_Isend(at, count, MPI_BYTE, peer, kTag, communicator_, &request)
                         : MPI_Irecv(at, count, MPI_BYTE, peer, kTag, communicator_, &request);
    if (Status status = status_of(code, "MPI_Isend or MPI_Irecv"); !status.ok()) {
      transfer.staging.abandon();
      return status;
    }
    at += piece;
    left -= piece;
  } while (left > 0);
  transfers_.emplace(next_id_, std::move(transfer));
  return next_id_++;
}

Status MpiTransport::wait(TransferId id, const AbortToken& abort) {
  auto found = transfers_.extract(id);
  if (found.empty()) return {Code::kInternal, fmt::format("transfer {} is not posted", id)};
  Transfer& transfer = found.mapped();
  if (Status status = wait_all(transfer.requests, abort); !status.ok()) {
    transfer.staging.abandon();
    return status;
  }
  const std::span<std::byte> out = transfer.destination;
  if (!out.empty()) std::memcpy(out.data(), transfer.staging.data(), out.size());
  keep_staging(std::move(transfer.staging));
  return {};
}

}  // namespace ronde::mpi
