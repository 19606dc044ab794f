#include "backends/net/data/members.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/net/connection/handshake.h"

namespace ronde::net {

int Members::position(int job_rank) const noexcept {
  const auto found =
      std::lower_bound(names_.begin(), names_.end(), job_rank,
                       [](const FailedRank& name, int rank) { return name.rank < rank; });
  if (found == names_.end() || found->rank != job_rank) return -1;
  return static_cast<int>(found - names_.begin());
}

std::string Members::over(std::size_t interface) const {
  return interfaces_.size() < 2 ? std::string() : " over " + interfaces_[interface];
}

std::string Members::connection_with(int rank, std::size_t interface) const {
  return "the connection with " + name_of(who(rank)) + over(interface);
}

Status Members::gone(int rank, std::string_view what) const {
  return Status(Code::kRankFailure, fmt::format("{} {}", name_of(who(rank)), what))
      .about(who(rank));
}

Status Members::check_peer(int rank) const {
  if (is_peer(rank)) return {};
  return {Code::kInvalidArgument, fmt::format("no peer {}", rank)};
}

Status Members::judge(int rank, const Status& error, std::size_t interface) const {
  if (error.ok()) return {};
  if (error.code() == Code::kInternal) {
    return {error.code(), fmt::format("rank {} of the group {}", rank, error.message())};
  }
  if (error.code() == Code::kCorrupted) {
    return {error.code(), fmt::format("the connection of {} with {}{} {}", name_of(who(rank_)),
                                      name_of(who(rank)), over(interface), error.message())};
  }
  const bool refused = error.code() == Code::kInvalidArgument;
  return gone(rank, fmt::format("is {}: its connection{} {}", refused ? "cut off" : "gone",
                                over(interface), error.message()));
}

Status Members::not_connected(int rank, const Status& why, std::size_t interface) const {
  const std::string reason = why.message().empty() ? "" : ": " + why.message();
  const std::string way =
      interfaces_.size() < 2 ? reason : ": no connection" + over(interface) + reason;
  if (why.code() == Code::kRankFailure) {
    return gone(rank, "is gone: it accepts no connection" + way);
  }
  return Status(why.code(), fmt::format("rank {} could not connect with {}{}{}", who(rank_).rank,
                                        name_of(who(rank)),
                                        why.code() == Code::kTimeout ? " in time" : "", way))
      .about(who(rank));
}

}  // namespace ronde::net
