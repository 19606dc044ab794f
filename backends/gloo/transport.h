// Ronde's point-to-point over Gloo's unbound buffers.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backends/gloo/mesh.h"
#include "core/ports/transport.h"

namespace ronde::gloo_backend {

/// Every message has a slot of its own, so that order is kept whatever Gloo does with equal slots.
/// Threads: one at a time.
class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(std::shared_ptr<Mesh> mesh, std::shared_ptr<AbortToken> group_abort);

  int rank() const noexcept override { return mesh_->rank; }
  int size() const noexcept override { return mesh_->size; }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  enum class Direction : std::uint8_t { kSend, kRecv };
  struct Transfer {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    int peer = 0;
    Direction direction = Direction::kSend;
  };

  Result<TransferId> post(Transfer transfer, std::vector<std::uint64_t>& slots);

  const std::shared_ptr<Mesh> mesh_;
  const std::shared_ptr<AbortToken> group_abort_;
  std::vector<std::uint64_t> send_slots_;  // next, by peer
  std::vector<std::uint64_t> recv_slots_;
  TransferId next_id_ = 1;
  std::unordered_map<TransferId, Transfer> transfers_;
};

}  // namespace ronde::gloo_backend
