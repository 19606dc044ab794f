// LocalTransport: a waiting rank copies what has arrived for it, so no progress thread is needed.
#include "tests/support/local/transport.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace ronde {
namespace {

constexpr std::chrono::milliseconds kSleepSlice{50};

/// Wakes a word when a token is aborted, for as long as it lives. A null token is none.
class WakeOnAbort {
 public:
  WakeOnAbort(const AbortToken* token, WakeWord& word) : token_(token) {
    if (token_ != nullptr) id_ = token_->listen([&word] { word.wake(); });
  }
  ~WakeOnAbort() {
    if (token_ != nullptr) token_->unlisten(id_);
  }
  WakeOnAbort(const WakeOnAbort&) = delete;
  WakeOnAbort& operator=(const WakeOnAbort&) = delete;

 private:
  const AbortToken* const token_;
  int id_ = 0;
};

}  // namespace

LocalTransport::LocalTransport(std::shared_ptr<LocalMailboxes> boxes, int rank,
                               std::shared_ptr<AbortToken> group_abort)
    : boxes_(std::move(boxes)), rank_(rank), group_abort_(std::move(group_abort)) {}

LocalTransport::~LocalTransport() {
  withdraw_all();
  boxes_->leave(rank_);
}

Status LocalTransport::check_peer(int peer) const {
  if (peer >= 0 && peer < size() && peer != rank_) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("rank {} of the group cannot exchange messages with rank {} of {}",
                            rank_, peer, size()));
}

Result<TransferId> LocalTransport::send(int to, std::span<const std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(to));
  transfers_[next_id_] = {.peer = to, .send = boxes_->post(rank_, to, data), .received = false};
  return next_id_++;
}

Result<TransferId> LocalTransport::recv(int from, std::span<std::byte> data) {
  RONDE_RETURN_IF_ERROR(check_peer(from));
  transfers_[next_id_] = {.peer = from, .send = nullptr, .received = false};
  recvs_[from].push_back({.id = next_id_, .data = data});
  return next_id_++;
}

Status LocalTransport::wait(TransferId id, const AbortToken& abort) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) {
    return Status(Code::kInvalidArgument, fmt::format("transfer {} is not in flight", id));
  }
  Status status = receive_what_has_come();
  if (status.ok() && !done(found->second)) status = wait_until_done(found->second, abort);
  if (status.ok()) {
    transfers_.erase(found);
  } else {
    withdraw_all();
  }
  return status;
}

Status LocalTransport::wait_until_done(const Transfer& transfer, const AbortToken& abort) {
  WakeWord& word = boxes_->word(rank_);
  const WakeOnAbort by_call(&abort, word);
  const WakeOnAbort by_group(group_abort_.get() == &abort ? nullptr : group_abort_.get(), word);
  for (;;) {
    const std::uint32_t ticket = word.ticket();
    // Asked before looking: a peer may finish this transfer and leave in between.
    const Status trouble = obstacle(transfer, abort);
    RONDE_RETURN_IF_ERROR(receive_what_has_come());
    if (done(transfer)) return {};
    RONDE_RETURN_IF_ERROR(trouble);
    word.wait(ticket, now() + kSleepSlice);
  }
}

bool LocalTransport::done(const Transfer& transfer) const {
  return transfer.send == nullptr ? transfer.received : boxes_->done(*transfer.send);
}

Status LocalTransport::obstacle(const Transfer& transfer, const AbortToken& abort) const {
  if (abort.poll()) return abort.status();
  if (group_abort_ != nullptr && group_abort_->aborted()) return group_abort_->status();
  return boxes_->obstacle(transfer.peer);
}

Status LocalTransport::receive_what_has_come() {
  for (auto& [from, queue] : recvs_) {
    while (!queue.empty()) {
      const PostedSendPtr send = boxes_->take(from, rank_);
      if (send == nullptr) break;
      const Status copied = copy(*send, queue.front());
      boxes_->finish(*send);
      if (!copied.ok()) {
        boxes_->fail(copied);
        return copied;
      }
      queue.pop_front();
    }
  }
  return {};
}

Status LocalTransport::copy(const PostedSend& send, const PostedRecv& recv) {
  if (send.data.size() != recv.data.size()) {
    return Status(Code::kInternal,
                  fmt::format("rank {} of the group sent {} bytes where rank {} expected {}",
                              send.from, send.data.size(), rank_, recv.data.size()));
  }
  if (!send.data.empty()) std::memcpy(recv.data.data(), send.data.data(), send.data.size());
  transfers_[recv.id].received = true;
  return {};
}

void LocalTransport::withdraw_all() {
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.send != nullptr) boxes_->withdraw(transfer.send);
  }
  transfers_.clear();
  recvs_.clear();
}

}  // namespace ronde
