// The ranks of a group as its connections and errors name them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace ronde::net {

/// The names of the ranks of a group, by rank of the group, ascending.
using PeerNames = std::vector<FailedRank>;

/// Names the ranks of one group. Threads: immutable, so any.
class Members {
 public:
  /// `rank`: this process's position in the group.
  Members(int rank, PeerNames names) : rank_(rank), names_(std::move(names)) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(names_.size()); }
  [[nodiscard]] bool is_peer(int rank) const noexcept {
    return rank >= 0 && rank < size() && rank != rank_;
  }
  /// Errors: kInvalidArgument for other ranks.
  [[nodiscard]] Status check_peer(int rank) const;
  [[nodiscard]] const FailedRank& who(int rank) const {
    return names_[static_cast<std::size_t>(rank)];
  }
  /// The rank in the group of a rank of the job; -1 where it is not in it.
  [[nodiscard]] int position(int job_rank) const noexcept;
  /// "rank 1 (pid 7 on node1)".
  [[nodiscard]] std::string name_of(int rank) const;

  /// kRankFailure about the rank: its name and `what`.
  [[nodiscard]] Status gone(int rank, std::string_view what) const;
  /// The error of the rank's link, naming the rank; ok where that is.
  [[nodiscard]] Status judge(int rank, const Status& error) const;
  /// The error of a dial that has ended without a connection.
  [[nodiscard]] Status not_connected(int rank, const Status& why) const;

 private:
  int rank_;
  PeerNames names_;
};

}  // namespace ronde::net
