#include "backends/net/meet/rendezvous_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "backends/net/connection/socket.h"
#include "core/protocol/tree.h"

namespace ronde::net {

namespace {

/// The hosts of a job, in ascending order of their lowest ranks.
class HostsOfTree {
 public:
  /// The next ranks are on `host`, which may be the next one.
  void add_ranks(int host, int count) {
    if (host == this->count()) ranks_of_.emplace_back();
    for (int added = 0; added < count; ++added) {
      ranks_of_[static_cast<std::size_t>(host)].push_back(ranks());
      host_of_.push_back(host);
    }
  }

  [[nodiscard]] int count() const noexcept { return static_cast<int>(ranks_of_.size()); }
  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(host_of_.size()); }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int leader(int host) const { return ranks_of(host).front(); }
  /// The ranks of `host` but its leader.
  [[nodiscard]] std::span<const int> others(int host) const { return ranks_of(host).subspan(1); }

  /// Appends the ranks that meet through the leader of `host`. Returns the levels below it.
  int collect(int host, std::vector<int>& ranks) const {
    const std::span<const int> here = others(host);
    ranks.insert(ranks.end(), here.begin(), here.end());
    int levels = here.empty() ? 0 : 1;
    for (const int below : leaders_below(host, count())) {
      ranks.push_back(leader(below));
      levels = std::max(levels, 1 + collect(below, ranks));
    }
    return levels;
  }

 private:
  [[nodiscard]] std::span<const int> ranks_of(int host) const {
    return ranks_of_[static_cast<std::size_t>(host)];
  }

  std::vector<std::vector<int>> ranks_of_;  // ascending, by host
  std::vector<int> host_of_;                // by rank
};

/// One entry of the ranks of hosts.
struct HostsEntry {
  int ranks = 0;
  int hosts = 1;   ///< That are new, each with so many ranks.
  int known = -1;  ///< Or the host of an earlier entry that has so many more.
};

/// Reads "8", "8x64" or "8@3"; nothing where it is malformed.
std::optional<HostsEntry> read_entry(std::string_view text) {
  HostsEntry entry;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, entry.ranks);
  if (read.ec == std::errc() && read.ptr != end) {
    if (*read.ptr != 'x' && *read.ptr != '@') return std::nullopt;
    int& number = *read.ptr == 'x' ? entry.hosts : entry.known;
    number = -1;
    read = std::from_chars(read.ptr + 1, end, number);
    if (number < 0) return std::nullopt;
  }
  const bool good = read.ec == std::errc() && read.ptr == end && entry.ranks > 0 && entry.hosts > 0;
  return good ? std::optional(entry) : std::nullopt;
}

/// False where the text is malformed, or the job is absurdly large.
bool add_hosts(std::string_view text, HostsOfTree& hosts) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto entry = read_entry(text);
  if (!entry || entry->known >= hosts.count()) return false;
  if (hosts.ranks() + std::int64_t{entry->ranks} * entry->hosts > kMost) return false;
  for (int added = 0; added < entry->hosts; ++added) {
    hosts.add_ranks(entry->known >= 0 ? entry->known : hosts.count(), entry->ranks);
  }
  return true;
}

Status bad_tree(const std::string& text) {
  return {Code::kInvalidArgument,
          fmt::format("RONDE_RENDEZVOUS_TREE=\"{}\" is not the ranks of each host, this host's "
                      "address and that of the host above; allowed: \"8x64 10.0.0.9:4000 "
                      "10.0.0.1:4000\", on the first host without the last; \"8x64,1@0\" has one "
                      "rank more on host 0",
                      text)};
}

/// The setting's parts: the ranks of each host, and one or two addresses.
struct TreeSetting {
  HostsOfTree hosts;
  std::vector<Endpoint> addresses;
};

std::optional<TreeSetting> read_tree(const std::string& text) {
  TreeSetting parts;
  std::istringstream words(text);
  std::string hosts;
  words >> hosts;
  std::istringstream entries(hosts);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (!add_hosts(entry, parts.hosts)) return std::nullopt;
  }
  for (std::string word; words >> word;) {
    auto address = parse_endpoint(word);
    if (!address.ok()) return std::nullopt;
    parts.addresses.push_back(*address);
  }
  if (parts.hosts.count() == 0 || parts.addresses.empty()) return std::nullopt;
  return parts;
}

/// The leader of `host` has these below it.
void add_children(const HostsOfTree& hosts, int host, RendezvousPlace& place) {
  for (const int rank : hosts.others(host)) place.children.push_back({rank, {}});
  place.levels_below = place.children.empty() ? 0 : 1;
  for (const int below : leaders_below(host, hosts.count())) {
    RendezvousPlace::Child child{hosts.leader(below), {}};
    const int levels = 1 + hosts.collect(below, child.behind);
    place.levels_below = std::max(place.levels_below, levels);
    std::ranges::sort(child.behind);
    place.children.push_back(std::move(child));
  }
  std::ranges::sort(place.children, {}, &RendezvousPlace::Child::rank);
}

}  // namespace

RendezvousPlace place_of_root(std::span<const int> ranks) {
  RendezvousPlace place;
  for (const int rank : ranks) place.children.push_back({rank, {}});
  place.levels_below = 1;
  return place;
}

Result<std::optional<RendezvousPlace>> place_in_rendezvous(const Config& config) {
  if (config.rendezvous_tree.empty()) return std::optional<RendezvousPlace>();
  const auto parts = read_tree(config.rendezvous_tree);
  if (!parts) return bad_tree(config.rendezvous_tree);
  const HostsOfTree& hosts = parts->hosts;
  if (hosts.ranks() != config.size) return std::optional<RendezvousPlace>();
  const int host = hosts.host_of(config.rank);
  if (parts->addresses.size() != (host == 0 ? 1U : 2U)) return bad_tree(config.rendezvous_tree);
  RendezvousPlace place;
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
