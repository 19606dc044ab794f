// Point-to-point between threads: the receiver copies straight from the sender's memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>

#include "core/ports/transport.h"
#include "tests/support/local/mailboxes.h"

namespace ronde {

/// One rank's end of a LocalMailboxes. Threads: one at a time.
class LocalTransport final : public Transport {
 public:
  /// `rank` is the position in the group; `group_abort` may be null.
  LocalTransport(std::shared_ptr<LocalMailboxes> boxes, int rank,
                 std::shared_ptr<AbortToken> group_abort);
  /// Gives up what is still posted, and leaves the group.
  ~LocalTransport() override;
  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return boxes_->size(); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override;
  Result<TransferId> recv(int from, std::span<std::byte> data) override;
  Status wait(TransferId id, const AbortToken& abort) override;

 private:
  struct PostedRecv {
    TransferId id = 0;
    std::span<std::byte> data;
  };
  /// The state of a transfer: a send has its record, a receive is done or not.
  struct Transfer {
    int peer = 0;
    PostedSendPtr send;
    bool received = false;
  };

  Status check_peer(int peer) const;
  bool done(const Transfer& transfer) const;
  Status receive_what_has_come();
  Status copy(const PostedSend& send, const PostedRecv& recv);
  Status wait_until_done(const Transfer& transfer, const AbortToken& abort);
  Status obstacle(const Transfer& transfer, const AbortToken& abort) const;
  void withdraw_all();

  const std::shared_ptr<LocalMailboxes> boxes_;
  const int rank_;
  const std::shared_ptr<AbortToken> group_abort_;
  std::map<TransferId, Transfer> transfers_;
  std::map<int, std::deque<PostedRecv>> recvs_;  // by sender, in the order they were posted
  TransferId next_id_ = 1;
};

}  // namespace ronde
