// ExchangeRounds: one row of values for each round of calls.
#include "tests/support/local_exchange.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace ronde::test {
namespace {

constexpr std::size_t kMaxValueBytes = 64 * 1024;

/// Unlike any other in this process, and unlikely to be used by another one.
std::uint64_t next_key() {
  static std::atomic<std::uint64_t> count{0};
  return static_cast<std::uint64_t>(getpid()) << 32 | ++count;
}

std::vector<Topology> make_topologies(int size, const std::vector<int>& host_of_rank) {
  std::vector<PeerInfo> peers;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    const int host = host_of_rank.empty() ? 0 : host_of_rank[rank];
    peers.push_back({.host_index = host, .host_name = "local", .pid = getpid()});
  }
  std::vector<Topology> topologies;
  for (int rank = 0; rank < size; ++rank) topologies.push_back({.rank = rank, .peers = peers});
  return topologies;
}

}  // namespace

ExchangeRounds::ExchangeRounds(int size, std::shared_ptr<AbortToken> abort)
    : size_(size), abort_(std::move(abort)) {
  if (abort_ == nullptr) return;
  listener_ = abort_->listen([this] {
    MutexLock lock(mutex_);
    changed_.notify_all();
  });
}

ExchangeRounds::~ExchangeRounds() {
  if (abort_ != nullptr) abort_->unlisten(listener_);
}

Result<std::vector<std::string>> ExchangeRounds::allgather(int rank, std::size_t round,
                                                           std::string_view mine) {
  if (mine.size() > kMaxValueBytes) {
    return Status(Code::kInvalidArgument, "a value to exchange is over 64 KiB");
  }
  {
    MutexLock lock(mutex_);
    put(rank, round, mine);
    if (complete(round)) return rounds_[round].values;
  }
  return abort_->status();  // not under our lock: the token calls the listener under its own
}

void ExchangeRounds::put(int rank, std::size_t round, std::string_view mine) {
  if (rounds_.size() <= round) rounds_.resize(round + 1);
  Round& row = rounds_[round];
  if (row.values.empty()) row.values.resize(static_cast<std::size_t>(size_));
  row.values[static_cast<std::size_t>(rank)] = mine;
  if (++row.present == size_) changed_.notify_all();
}

bool ExchangeRounds::complete(std::size_t round) {
  while (rounds_[round].present < size_) {
    if (abort_ != nullptr && abort_->aborted()) return false;
    changed_.wait(mutex_);
  }
  return true;
}

LocalJob::LocalJob(int size, const std::vector<int>& host_of_rank)
    : topologies_(make_topologies(size, host_of_rank)),
      key_(next_key()),
      rounds_(std::make_shared<ExchangeRounds>(size, abort_)) {}

GroupSpec LocalJob::group(int rank) const {
  GroupSpec spec{.key = key_, .ranks = {}, .rank = rank, .topology = nullptr, .abort = abort_};
  for (int r = 0; r < size(); ++r) spec.ranks.push_back(r);
  spec.topology = &topology(rank);
  return spec;
}

std::unique_ptr<Exchange> LocalJob::exchange(int rank) const {
  return std::make_unique<LocalExchange>(rounds_, rank);
}

}  // namespace ronde::test
