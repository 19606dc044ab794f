#include "tests/gpu/process_world.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "core/base/bytes.h"
#include "core/base/clock.h"

namespace ronde::test {
namespace {

constexpr std::chrono::seconds kTimeout{120};

JobLink join() {
  const auto config = config_from(process_environment());
  REQUIRE_MESSAGE(config.ok(), config.status().to_string());
  auto link = connect_job(*config, {"tests on a GPU"});
  REQUIRE_MESSAGE(link.ok(), link.status().to_string());
  return std::move(*link);
}

}  // namespace

void ChannelExchange::on_frame(int from, std::span<const std::byte> frame) {
  arrived_[from].emplace_back(as_text(frame));
}

void ChannelExchange::on_peer_lost(int, const Status& reason) { lost_ = reason; }
void ChannelExchange::on_peer_left(int, const Status& reason) { lost_ = reason; }

bool ChannelExchange::has_all() const {
  const auto others = static_cast<std::size_t>(channel_.topology().size() - 1);
  return arrived_.size() == others &&
         std::none_of(arrived_.begin(), arrived_.end(),
                      [](const auto& one) { return one.second.empty(); });
}

Status ChannelExchange::wait_for_all() {
  const TimePoint limit = now() + kTimeout;
  while (!has_all()) {
    if (channel_.poll(*this)) continue;
    if (!lost_.ok()) return lost_;
    if (now() > limit) return {Code::kTimeout, "a rank did not come to the exchange"};
    channel_.kick();
    const std::uint32_t ticket = channel_.prepare_wait(Sleeper::kCaller);
    if (channel_.poll(*this)) continue;
    channel_.kick();
    channel_.wait(Sleeper::kCaller, ticket, limit);
  }
  channel_.kick();
  return {};
}

Result<std::vector<std::string>> ChannelExchange::allgather(std::string_view mine) {
  const Topology& job = channel_.topology();
  for (int rank = 0; rank < job.size(); ++rank) {
    if (rank == job.rank) continue;
    RONDE_RETURN_IF_ERROR(channel_.send(rank, std::as_bytes(std::span(mine))));
  }
  RONDE_RETURN_IF_ERROR(wait_for_all());
  std::vector<std::string> values(job.peers.size());
  for (int rank = 0; rank < job.size(); ++rank) {
    std::string& value = values[static_cast<std::size_t>(rank)];
    if (rank == job.rank) {
      value = mine;
    } else {
      value = std::move(arrived_[rank].front());
      arrived_[rank].pop_front();
    }
  }
  return values;
}

ProcessWorld& ProcessWorld::instance() {
  static ProcessWorld world;
  return world;
}

ProcessWorld::ProcessWorld() : link_(join()), exchange_(*link_.channel) {}

GroupSpec ProcessWorld::group() {
  GroupSpec group;
  group.key = ++key_;
  group.ranks.resize(static_cast<std::size_t>(size()));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.rank = rank();
  group.topology = &link_.channel->topology();
  group.abort = std::make_shared<AbortToken>();
  return group;
}

}  // namespace ronde::test
