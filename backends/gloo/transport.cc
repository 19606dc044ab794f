#include "backends/gloo/transport.h"

#include <fmt/format.h>

#include <utility>

namespace ronde::gloo_backend {
namespace {

// Gloo's own collectives use the prefixes 1 to 8 in the highest byte of a slot.
constexpr std::uint64_t kFirstSlot = std::uint64_t{0x70} << 56;

}  // namespace

GlooTransport::GlooTransport(std::shared_ptr<Mesh> mesh, std::shared_ptr<AbortToken> group_abort)
    : mesh_(std::move(mesh)),
      group_abort_(std::move(group_abort)),
      send_slots_(static_cast<std::size_t>(mesh_->size), kFirstSlot),
      recv_slots_(send_slots_) {}

Result<TransferId> GlooTransport::send(int to, std::span<const std::byte> data) {
  auto* bytes = const_cast<std::byte*>(data.data());  // Gloo reads only
  return post({mesh_->createUnboundBuffer(bytes, data.size()), to, Direction::kSend}, send_slots_);
}

Result<TransferId> GlooTransport::recv(int from, std::span<std::byte> data) {
  return post({mesh_->createUnboundBuffer(data.data(), data.size()), from, Direction::kRecv},
              recv_slots_);
}

Result<TransferId> GlooTransport::post(Transfer transfer, std::vector<std::uint64_t>& slots) {
  const int peer = transfer.peer;
  const std::uint64_t slot = slots[static_cast<std::size_t>(peer)]++;
  gloo::transport::UnboundBuffer& buffer = *transfer.buffer;
  const auto start = [&] {
    if (transfer.direction == Direction::kSend) {
      buffer.send(peer, slot, 0, buffer.size);
    } else {
      buffer.recv(peer, slot, 0, buffer.size);
    }
  };
  RONDE_RETURN_IF_ERROR(mesh_->call(*group_abort_, start, peer));
  transfers_.emplace(next_id_, std::move(transfer));
  return next_id_++;
}

Status GlooTransport::wait(TransferId id, const AbortToken& abort) {
  auto found = transfers_.extract(id);
  if (found.empty()) return {Code::kInternal, fmt::format("transfer {} is not posted", id)};
  gloo::transport::UnboundBuffer& buffer = *found.mapped().buffer;
  const bool sending = found.mapped().direction == Direction::kSend;
  const auto finish = [&] { sending ? buffer.waitSend() : buffer.waitRecv(); };
  return mesh_->call(abort, finish, found.mapped().peer);
}

}  // namespace ronde::gloo_backend
