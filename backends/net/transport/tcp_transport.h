// Point-to-point over one connected stream socket per peer. Each message is 8 bytes of length and
// the data. All posted transfers move on during any wait, in both directions. So two ranks that
// send to each other do not block each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/socket.h"
#include "core/base/abort.h"
#include "core/base/status.h"
#include "core/ports/transport.h"

namespace ronde::net {

/// A descriptor that stays readable once one of the tokens it listens to aborts: an abort ends a
/// wait in poll(). Threads: one; abort() of the tokens from any.
class AbortWaker {
 public:
  /// Errors: kResourceExhausted.
  static Result<AbortWaker> create();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Listens to one token as long as it lives. The waker and the token outlive it.
  class Listening {
   public:
    Listening(const AbortWaker& waker, const AbortToken& token);
    ~Listening() { token_.unlisten(id_); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    AbortToken& token_;
    int id_;
  };

 private:
  explicit AbortWaker(FileDescriptor fd) noexcept : fd_(std::move(fd)) {}

  FileDescriptor fd_;
};

/// The names of lost peers in errors.
using PeerNames = std::vector<FailedRank>;

class TcpTransport final : public Transport {
 public:
  /// `streams` and `names` by rank of the group, the own stream invalid.
  TcpTransport(int rank, std::vector<Stream> streams, PeerNames names, AbortWaker waker);

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(peers_.size()); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  using Header = std::array<std::byte, 8>;
  struct Outgoing {
    Header header;
    std::span<const std::byte> data;
    std::size_t sent = 0;  // header included
  };
  struct Incoming {
    Header header{};
    std::span<std::byte> data;
    std::size_t received = 0;  // header included
  };
  struct Peer {
    Stream stream;
    std::deque<Outgoing> sends;
    std::deque<Incoming> receives;
    std::uint64_t posted_sends = 0;
    std::uint64_t posted_receives = 0;
    std::uint64_t done_sends = 0;  // they end in the order they were posted
    std::uint64_t done_receives = 0;
  };

  [[nodiscard]] bool valid_peer(int rank) const noexcept;
  [[nodiscard]] bool done(TransferId id) const noexcept;
  Status progress(bool& moved);
  Status progress_sends(int rank, bool& moved);
  Status progress_receives(int rank, bool& moved);
  Status send_some(int rank, bool& moved, bool& blocked);
  Status receive_some(int rank, bool& moved, bool& blocked);
  Status check_header(int rank) const;
  [[nodiscard]] Status gone(int rank, const Status& why) const;
  Status sleep(const AbortToken& abort);
  /// Why a connection broke, as the control channel knows it, or else as it looks from here.
  Status verdict(const AbortToken& abort) const;

  int rank_;
  PeerNames names_;
  AbortWaker waker_;
  std::vector<Peer> peers_;
  Status broken_;  ///< Nothing moves any more; what is posted meanwhile waits for the verdict.
  Status told_;    ///< What wait() has said of it.
};

}  // namespace ronde::net
