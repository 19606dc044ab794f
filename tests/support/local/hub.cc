// LocalHub: the ranks that are present or dead, and the groups that are being opened.
#include "tests/support/local/hub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/local/factory.h"

namespace ronde {
namespace {

/// Numbers the hosts by their lowest rank.
std::vector<PeerInfo> make_peers(int size, const std::vector<int>& host_of_rank) {
  std::map<int, int> index_of_host;
  std::vector<PeerInfo> peers;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    const int given = host_of_rank.empty() ? 0 : host_of_rank[rank];
    const int next = static_cast<int>(index_of_host.size());
    const int index = index_of_host.emplace(given, next).first->second;
    peers.push_back(
        {.host_index = index, .host_name = fmt::format("local{}", index), .pid = getpid()});
  }
  return peers;
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

LocalHub::LocalHub(int size, const std::vector<int>& host_of_rank)
    : peers_(make_peers(size, host_of_rank)) {
  for (int rank = 0; rank < size; ++rank) inboxes_.push_back(std::make_unique<LocalInbox>());
}

Topology LocalHub::topology(int rank) const { return {.rank = rank, .peers = peers_}; }

Status LocalHub::gone(int rank, std::string_view what_happened) const {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  return Status(Code::kRankFailure, fmt::format("rank {} {}", rank, what_happened))
      .about({.rank = rank, .host = peer.host_name, .pid = peer.pid});
}

void LocalHub::kill(int rank) {
  const Status reason = gone(rank, "died");
  break_groups_of(rank, reason);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    inbox(peer).end(rank, InboxItem::Kind::kLost, reason);
    inbox(rank).end(peer, InboxItem::Kind::kLost, reason);
  }
}

void LocalHub::leave(int rank) {
  const Status reason = gone(rank, "has left the job");
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank) inbox(peer).end(rank, InboxItem::Kind::kLeft, reason);
  }
}

void LocalHub::break_groups_of(int rank, const Status& reason) {
  MutexLock lock(mutex_);
  dead_.emplace(rank, reason);
  for (const auto& weak : groups_) {
    const auto boxes = weak.lock();
    if (boxes != nullptr && contains(boxes->ranks(), rank)) boxes->fail(reason);
  }
}

Result<std::shared_ptr<LocalMailboxes>> LocalHub::enter_group(std::uint64_t key,
                                                              const std::vector<int>& ranks) {
  MutexLock lock(mutex_);
  auto [place, is_new] = openings_.try_emplace(key);
  if (is_new) {
    place->second = {.boxes = std::make_shared<LocalMailboxes>(ranks),
                     .missing = static_cast<int>(ranks.size())};
    std::erase_if(groups_, [](const auto& group) { return group.expired(); });
    groups_.push_back(place->second.boxes);
  }
  auto boxes = place->second.boxes;
  if (boxes->ranks() != ranks) {
    return Status(Code::kMismatch,
                  fmt::format("ranks disagree about the members of group {}", key));
  }
  for (const auto& [rank, reason] : dead_) {
    if (contains(ranks, rank)) boxes->fail(reason);
  }
  if (--place->second.missing == 0) openings_.erase(place);
  return boxes;
}

std::shared_ptr<LocalHub> create_local_hub(int size, const std::vector<int>& host_of_rank) {
  return std::make_shared<LocalHub>(size, host_of_rank);
}

}  // namespace ronde
