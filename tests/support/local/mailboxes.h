// The posted sends of one local group: a queue for each ordered pair of ranks.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/os/futex.h"
#include "core/base/status.h"

namespace ronde {

/// A send that its receiver will copy straight from the sender's memory.
struct PostedSend {
  /// kCopying: the receiver reads `data`, which must therefore stay where it is.
  enum class State { kPosted, kCopying, kDone };
  int from = 0;
  int to = 0;
  std::span<const std::byte> data;
  State state = State::kPosted;
};
using PostedSendPtr = std::shared_ptr<PostedSend>;

/// Shared by the ranks of one group; ranks here are positions in the group. Threads: any.
/// Guarded by the one mutex are the queues and each PostedSend's state; copying happens outside.
class LocalMailboxes {
 public:
  /// `ranks` are the job's ranks in the group, for messages.
  explicit LocalMailboxes(std::vector<int> ranks);

  [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }

  PostedSendPtr post(int from, int to, std::span<const std::byte> data) RONDE_EXCLUDES(mutex_);

  /// The oldest send of this pair, now in state kCopying; null where there is none.
  PostedSendPtr take(int from, int to) RONDE_EXCLUDES(mutex_);

  /// The receiver has read the data.
  void finish(PostedSend& send) RONDE_EXCLUDES(mutex_);

  [[nodiscard]] bool done(const PostedSend& send) const RONDE_EXCLUDES(mutex_);

  /// Cancels a send. Returns once no rank reads its data.
  void withdraw(const PostedSendPtr& send) RONDE_EXCLUDES(mutex_);

  /// Marks `rank` as gone; ranks that wait for it get an error.
  void leave(int rank) RONDE_EXCLUDES(mutex_);

  /// Breaks the group for all of its ranks; the first reason stays.
  void fail(const Status& reason) RONDE_EXCLUDES(mutex_);

  /// The reason why nothing more can come from or reach `peer`; ok if it may.
  [[nodiscard]] Status obstacle(int peer) const RONDE_EXCLUDES(mutex_);

  /// Changes whenever something has happened that `rank` may wait for.
  WakeWord& word(int rank) noexcept { return words_[static_cast<std::size_t>(rank)]; }

 private:
  using Pair = std::pair<int, int>;  // from, to

  const std::vector<int> ranks_;
  std::vector<WakeWord> words_;
  mutable Mutex mutex_;
  std::map<Pair, std::deque<PostedSendPtr>> queues_ RONDE_GUARDED_BY(mutex_);
  std::vector<bool> left_ RONDE_GUARDED_BY(mutex_);
  Status failure_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
