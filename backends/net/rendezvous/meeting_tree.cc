#include "backends/net/rendezvous/meeting_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string_view>

#include "backends/net/rendezvous/socket.h"
#include "core/protocol/tree.h"

namespace ronde::net {
namespace {

/// The hosts of a job, in ascending order of rank.
class HostsOfTree {
 public:
  /// `counts`: the ranks of each.
  explicit HostsOfTree(std::vector<int> counts)
      : counts_(std::move(counts)), firsts_(counts_.size()) {
    std::exclusive_scan(counts_.begin(), counts_.end(), firsts_.begin(), 0);
  }

  [[nodiscard]] int count() const noexcept { return static_cast<int>(counts_.size()); }
  [[nodiscard]] int ranks() const noexcept { return end_of(count() - 1); }
  [[nodiscard]] int leader(int host) const { return firsts_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] int end_of(int host) const {
    return leader(host) + counts_[static_cast<std::size_t>(host)];
  }
  [[nodiscard]] int host_of(int rank) const {
    const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), rank);
    return static_cast<int>(next - firsts_.begin()) - 1;
  }

  /// Appends the ranks that meet through the leader of `host`. Returns the levels below it.
  int collect(int host, std::vector<int>& ranks) const {
    int levels = 0;
    for (int rank = leader(host) + 1; rank < end_of(host); ++rank, levels = 1) {
      ranks.push_back(rank);
    }
    for (const int below : leaders_below(host, count())) {
      ranks.push_back(leader(below));
      levels = std::max(levels, 1 + collect(below, ranks));
    }
    return levels;
  }

 private:
  std::vector<int> counts_;
  std::vector<int> firsts_;
};

/// Reads "8" or "8x64"; false where it is malformed, or the job is absurdly large.
bool add_hosts(std::string_view text, std::vector<int>& counts) {
  constexpr std::int64_t kMost = 1 << 20;
  int ranks = 0;
  int hosts = 1;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, ranks);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == 'x') {
    read = std::from_chars(read.ptr + 1, end, hosts);
  }
  const std::int64_t before = std::reduce(counts.begin(), counts.end());
  const bool good = read.ec == std::errc() && read.ptr == end && ranks > 0 && hosts > 0 &&
                    before + std::int64_t{ranks} * hosts <= kMost;
  if (good) counts.insert(counts.end(), static_cast<std::size_t>(hosts), ranks);
  return good;
}

Status bad_tree(const std::string& text) {
  return {Code::kInvalidArgument,
          fmt::format("RONDE_RENDEZVOUS_TREE=\"{}\" is not the ranks of each host, this host's "
                      "address and that of the host above; allowed: \"8x64 10.0.0.9:4000 "
                      "10.0.0.1:4000\", on the first host without the last",
                      text)};
}

/// The setting's parts: the ranks of each host, and one or two addresses.
struct TreeSetting {
  std::vector<int> counts;
  std::vector<Endpoint> addresses;
};

std::optional<TreeSetting> read_tree(const std::string& text) {
  TreeSetting parts;
  std::istringstream words(text);
  std::string hosts;
  words >> hosts;
  std::istringstream entries(hosts);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (!add_hosts(entry, parts.counts)) return std::nullopt;
  }
  for (std::string word; words >> word;) {
    auto address = parse_endpoint(word);
    if (!address.ok()) return std::nullopt;
    parts.addresses.push_back(*address);
  }
  if (parts.counts.empty() || parts.addresses.empty()) return std::nullopt;
  return parts;
}

/// The leader of `host` has these below it.
void add_children(const HostsOfTree& hosts, int host, MeetingPlace& place) {
  for (int rank = hosts.leader(host) + 1; rank < hosts.end_of(host); ++rank) {
    place.children.push_back({rank, {}});
    place.levels_below = 1;
  }
  for (const int below : leaders_below(host, hosts.count())) {
    MeetingPlace::Child child{hosts.leader(below), {}};
    const int levels = 1 + hosts.collect(below, child.behind);
    place.levels_below = std::max(place.levels_below, levels);
    std::ranges::sort(child.behind);
    place.children.push_back(std::move(child));
  }
}

}  // namespace

Result<std::optional<MeetingPlace>> place_in_meeting(const Config& config) {
  if (config.rendezvous_tree.empty()) return std::optional<MeetingPlace>();
  auto parts = read_tree(config.rendezvous_tree);
  if (!parts) return bad_tree(config.rendezvous_tree);
  const HostsOfTree hosts(std::move(parts->counts));
  if (hosts.ranks() != config.size) return std::optional<MeetingPlace>();
  const int host = hosts.host_of(config.rank);
  if (parts->addresses.size() != (host == 0 ? 1U : 2U)) return bad_tree(config.rendezvous_tree);
  MeetingPlace place;
  place.own = parts->addresses.front();
  if (hosts.leader(host) != config.rank) {
    place.parent = hosts.leader(host);
    place.parent_at = place.own;
    return std::optional(std::move(place));
  }
  if (host > 0) {
    place.parent = hosts.leader(leader_above(host));
    place.parent_at = parts->addresses.back();
  }
  add_children(hosts, host, place);
  return std::optional(std::move(place));
}

}  // namespace ronde::net
