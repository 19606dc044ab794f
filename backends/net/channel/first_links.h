// How a rank learns that it is linked with all that it watches, when it starts.
#pragma once

#include <optional>
#include <string>

#include "backends/net/channel/link_peers.h"
#include "core/base/status.h"

namespace ronde::net {

/// The outcome of connecting. Errors name the ranks: kTimeout; kRankFailure where one has ended.
/// Threads: one at a time.
class FirstLinks {
 public:
  /// `rank`: this one.
  explicit FirstLinks(int rank) noexcept : rank_(rank) {}

  /// True until the outcome is known.
  [[nodiscard]] bool under_way() const noexcept { return under_way_; }
  /// A dial has ended without a link.
  void fail(int rank, const Status& why);
  /// The outcome; nothing while connecting goes on.
  std::optional<Status> outcome(const LinkPeers& peers);
  /// The outcome at the end of the time, with some ranks unlinked.
  Status time_out(const LinkPeers& peers);

 private:
  [[nodiscard]] Status error(Code code, const std::string& ranks, int first) const;

  const int rank_;
  bool under_way_ = true;
  Status failure_;
};

}  // namespace ronde::net
