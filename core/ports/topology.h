// The ranks of a job, and the host of each.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// One process of the job.
struct PeerInfo {
  int host_index = 0;     ///< Hosts are numbered by their lowest rank, from 0.
  std::string host_name;  ///< For people; two hosts may share it.
  int pid = 0;
};

/// The job as agreed when the ranks met: the same on every rank.
struct Topology {
  int rank = 0;                 ///< This process.
  std::vector<PeerInfo> peers;  ///< By rank; its size is the job's size.

  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers.size()); }
  /// A rank as errors name it.
  [[nodiscard]] FailedRank who(int of) const {
    const PeerInfo& peer = peers[static_cast<std::size_t>(of)];
    return {of, peer.host_name, peer.pid};
  }
  [[nodiscard]] bool same_host(int a, int b) const {
    return peers[static_cast<std::size_t>(a)].host_index ==
           peers[static_cast<std::size_t>(b)].host_index;
  }
  /// Ranks on the same host as `of`, ascending; `of` included.
  [[nodiscard]] std::vector<int> host_ranks(int of) const {
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r) {
      if (same_host(of, r)) ranks.push_back(r);
    }
    return ranks;
  }
  [[nodiscard]] int host_count() const {
    int highest = -1;
    for (const PeerInfo& peer : peers) highest = std::max(highest, peer.host_index);
    return highest + 1;
  }
};

}  // namespace ronde
