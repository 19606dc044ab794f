#include "backends/net/channel/first_links.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace ronde::net {

void FirstLinks::fail(int rank, const Status& why) {
  failure_ = error(why.code(), fmt::format("{} ({})", rank, why.message()), rank);
}

std::optional<Status> FirstLinks::outcome(const LinkPeers& peers) {
  const std::set<int> missing = peers.unlinked();
  for (const int rank : missing) {
    if (!failure_.ok() || !peers.is_lost(rank)) continue;
    failure_ = error(Code::kRankFailure, fmt::format("{} (it has ended)", rank), rank);
  }
  if (failure_.ok() && !missing.empty()) return std::nullopt;
  under_way_ = false;
  return failure_;
}

Status FirstLinks::time_out(const LinkPeers& peers) {
  under_way_ = false;
  const std::set<int> missing = peers.unlinked();
  return error(Code::kTimeout, fmt::format("{}", fmt::join(missing, ", ")), *missing.begin());
}

Status FirstLinks::error(Code code, const std::string& ranks, int first) const {
  return Status(code, fmt::format("rank {} could not connect with rank {} in time", rank_, ranks))
      .about({first, {}, 0});
}

}  // namespace ronde::net
