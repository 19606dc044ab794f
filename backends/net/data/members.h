// The ranks of a group as its connections and errors name them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace ronde::net {

/// The names of the ranks of a group, by rank of the group, ascending.
using PeerNames = std::vector<FailedRank>;

/// Names the ranks of one group, and the interfaces of connections with them. Threads: immutable,
/// so any.
class Members {
 public:
  /// `rank`: this process's position in the group. `interfaces`: the names of several network
  /// interfaces; empty: all connections go one way.
  Members(int rank, PeerNames names, std::vector<std::string> interfaces = {})
      : rank_(rank), names_(std::move(names)), interfaces_(std::move(interfaces)) {}

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
  /// "the connection with rank 1 (pid 7 on node1) over eth1"; without the interface where there is
  /// one.
  [[nodiscard]] std::string connection_with(int rank, std::size_t interface) const;
  /// The number of interfaces: one at least.
  [[nodiscard]] std::size_t interfaces() const noexcept {
    return std::max<std::size_t>(1, interfaces_.size());
  }
  /// " over eth1"; empty where there is one interface.
  [[nodiscard]] std::string over(std::size_t interface) const;

  /// kRankFailure about the rank: its name and `what`.
  [[nodiscard]] Status gone(int rank, std::string_view what) const;
  /// The error of the rank's link over an interface, naming the rank; ok where that is.
  [[nodiscard]] Status judge(int rank, const Status& error, std::size_t interface = 0) const;
  /// The error of a dial that has ended without a connection.
  [[nodiscard]] Status not_connected(int rank, const Status& why, std::size_t interface = 0) const;

 private:
  int rank_;
  PeerNames names_;
  std::vector<std::string> interfaces_;
};

}  // namespace ronde::net
