// LocalMailboxes: rendezvous of sends and receives between threads.
#include "tests/support/local/mailboxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ronde {

LocalMailboxes::LocalMailboxes(std::vector<int> ranks)
    : ranks_(std::move(ranks)), words_(ranks_.size()), left_(ranks_.size()) {}

PostedSendPtr LocalMailboxes::post(int from, int to, std::span<const std::byte> data) {
  auto send = std::make_shared<PostedSend>(PostedSend{.from = from, .to = to, .data = data});
  {
    MutexLock lock(mutex_);
    queues_[{from, to}].push_back(send);
  }
  word(to).wake();
  return send;
}

PostedSendPtr LocalMailboxes::take(int from, int to) {
  MutexLock lock(mutex_);
  auto& queue = queues_[{from, to}];
  if (queue.empty()) return nullptr;
  PostedSendPtr send = std::move(queue.front());
  queue.pop_front();
  send->state = PostedSend::State::kCopying;
  return send;
}

void LocalMailboxes::finish(PostedSend& send) {
  const int from = send.from;
  {
    MutexLock lock(mutex_);
    send.state = PostedSend::State::kDone;
  }
  word(from).wake();
}

bool LocalMailboxes::done(const PostedSend& send) const {
  MutexLock lock(mutex_);
  return send.state == PostedSend::State::kDone;
}

void LocalMailboxes::withdraw(const PostedSendPtr& send) {
  for (;;) {
    const std::uint32_t ticket = word(send->from).ticket();
    {
      MutexLock lock(mutex_);
      auto& queue = queues_[{send->from, send->to}];
      queue.erase(std::remove(queue.begin(), queue.end(), send), queue.end());
      if (send->state != PostedSend::State::kCopying) return;
    }
    word(send->from).wait(ticket, kForever);  // for one memcpy, no longer
  }
}

void LocalMailboxes::leave(int rank) {
  {
    MutexLock lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
  }
  for (WakeWord& word : words_) word.wake();
}

void LocalMailboxes::fail(const Status& reason) {
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = reason;
  }
  for (WakeWord& word : words_) word.wake();
}

Status LocalMailboxes::obstacle(int peer) const {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (!left_[static_cast<std::size_t>(peer)]) return {};
  const int rank = ranks_[static_cast<std::size_t>(peer)];
  return Status(Code::kRankFailure, fmt::format("rank {} has left the job", rank))
      .about({.rank = rank, .host = {}, .pid = 0});
}

}  // namespace ronde
