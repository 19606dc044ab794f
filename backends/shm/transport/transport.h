// Point-to-point over one byte ring for each ordered pair of ranks, so that the algorithms in ops/
// run on shared memory too. Messages longer than a ring stream through it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "backends/shm/memory/layout.h"
#include "backends/shm/memory/wait.h"
#include "core/ports/transport.h"

namespace ronde::shm {

/// One end's view of a ring. Threads: one writer and one reader, each with its own view.
class Ring {
 public:
  Ring(RingControl& control, std::byte* data, std::size_t capacity) noexcept
      : control_(&control), data_(data), capacity_(capacity) {}

  /// Writes as much of `bytes` as fits now; returns how much that was. Blocks: never.
  std::size_t push(const std::byte* from, std::size_t bytes) noexcept;

  /// Reads at most `bytes` of what is there; returns how much that was. Blocks: never.
  std::size_t pop(std::byte* to, std::size_t bytes) noexcept;

 private:
  RingControl* control_;
  std::byte* data_;
  std::size_t capacity_;
};

/// The transport of one rank of a group. Each message is its length (8 bytes), its bytes and, with
/// `checks`, their checksum.
class ShmTransport final : public Transport {
 public:
  /// `base` is the group's memory and must outlive this; `group_abort` may be null.
  ShmTransport(const Layout& layout, std::byte* base, int ranks, int rank, SpinLimit spin,
               const AbortToken* group_abort, bool checks = false);

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(peers_.size()); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  /// A message on its way: the length comes first, then the data.
  struct Outgoing {
    std::span<const std::byte> data;
    std::uint64_t length = 0;
    std::size_t moved = 0;
    std::uint64_t checksum = 0;
  };
  struct Incoming {
    std::span<std::byte> data;
    std::uint64_t length = 0;
    std::size_t moved = 0;
    std::uint64_t checksum = 0;
  };
  struct Peer {
    Ring to;
    Ring from;
    Wakeup* wakeup;
    std::deque<Outgoing> sends;
    std::deque<Incoming> recvs;
    std::array<std::uint64_t, 2> posted{};  ///< Sends and receives so far.
    std::array<std::uint64_t, 2> done{};    ///< How many of those are complete.
  };

  Status check_peer(int rank) const;
  [[nodiscard]] bool is_done(TransferId id) const noexcept;
  bool progress();
  bool progress_sends(Peer& peer);
  bool progress_recvs(Peer& peer);
  [[nodiscard]] std::size_t bytes_of(const auto& message) const noexcept;
  bool push(Ring& ring, Outgoing& message) const;
  bool pop(Peer& peer, Incoming& message);
  Status judge(const Peer& peer, const Incoming& message) const;
  void sleep_unless_progress();

  const int rank_;
  const bool checks_;
  Awaiter awaiter_;
  const AbortToken* const group_abort_;
  Wakeup& wakeup_;
  std::vector<Peer> peers_;  ///< By rank; this rank's own is never used.
  Status broken_;
};

}  // namespace ronde::shm
