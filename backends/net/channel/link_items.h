// Frames and losses on their way from the links' thread to the thread that polls.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "backends/net/channel/loss.h"
#include "backends/net/channel/tcp_links.h"
#include "core/base/mutex.h"

namespace ronde::net {

/// One thing that TcpLinks::poll delivers.
struct LinkItem {
  int from = -1;
  std::vector<std::byte> frame;
  std::optional<LostRank> lost;  ///< Instead of a frame.
};

/// A queue of them. Threads: any puts, one delivers.
class LinkItems {
 public:
  void put(LinkItem item) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      items_.push_back(std::move(item));
    }
    // Sequentially consistent: comes before a hook reads which thread to wake.
    arrived_.store(true, std::memory_order_seq_cst);
  }

  /// True where there was anything.
  bool deliver(const LinkEvents& events) RONDE_EXCLUDES(mutex_) {
    arrived_.store(false, std::memory_order_seq_cst);
    std::vector<LinkItem> items;
    {
      const MutexLock lock(mutex_);
      items.swap(items_);
    }
    for (const LinkItem& item : items) {
      if (item.lost) {
        events.on_lost(*item.lost);
      } else {
        events.on_frame(item.from, item.frame);
      }
    }
    return !items.empty();
  }

  /// True once something has been put since deliver() began.
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return arrived_; }

 private:
  std::atomic<bool> arrived_{false};
  Mutex mutex_;
  std::vector<LinkItem> items_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde::net
