// Connects the ranks of a local job: threads of one process, on as many pretended
// hosts as a test wants.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/ports/topology.h"
#include "tests/support/local/inbox.h"
#include "tests/support/local/mailboxes.h"

namespace ronde {

/// One job of ranks that are threads. Threads: any.
class LocalHub {
 public:
  /// `host_of_rank` holds any numbers; ranks with equal ones share a host. Empty: one host.
  LocalHub(int size, const std::vector<int>& host_of_rank);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }

  /// The job as `rank` sees it.
  [[nodiscard]] Topology topology(int rank) const;

  /// Simulates the death of `rank`: its peers learn "rank N died", groups that it is in break. Its
  /// own thread, which lives on, finds all peers cut off with the same reason.
  void kill(int rank) RONDE_EXCLUDES(mutex_);

  /// Tells all peers that `rank` has left on purpose.
  void leave(int rank);

  LocalInbox& inbox(int rank) noexcept { return *inboxes_[static_cast<std::size_t>(rank)]; }

  /// The mailboxes of group `key`; the first rank to ask makes them. Blocks: never.
  /// Errors: kMismatch where ranks disagree about the members of the group.
  Result<std::shared_ptr<LocalMailboxes>> enter_group(std::uint64_t key,
                                                      const std::vector<int>& ranks)
      RONDE_EXCLUDES(mutex_);

 private:
  struct Opening {
    std::shared_ptr<LocalMailboxes> boxes;
    int missing = 0;
  };
  [[nodiscard]] Status gone(int rank, std::string_view what_happened) const;
  void break_groups_of(int rank, const Status& reason) RONDE_EXCLUDES(mutex_);

  std::vector<PeerInfo> peers_;                       // const after construction
  std::vector<std::unique_ptr<LocalInbox>> inboxes_;  // const after construction
  Mutex mutex_;
  std::map<std::uint64_t, Opening> openings_ RONDE_GUARDED_BY(mutex_);  // not yet complete
  std::vector<std::weak_ptr<LocalMailboxes>> groups_ RONDE_GUARDED_BY(mutex_);
  std::map<int, Status> dead_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace ronde
