#include "backends/net/control/host_segment.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace ronde::net {
namespace {

// A fresh memfd is all zeros, and zeros are the start state of every word in it.
static_assert(std::is_trivially_destructible_v<RankSlot>);
static_assert(std::is_trivially_destructible_v<RingHeader>);

constexpr unsigned kLossBits = 8;  // of a loss word; the reporter's rank is above them

constexpr std::size_t kPage = 4096;

constexpr std::size_t to_pages(std::size_t bytes) noexcept {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t headers_at(std::size_t ranks) noexcept { return to_pages(ranks * sizeof(RankSlot)); }

std::size_t data_at(std::size_t ranks) noexcept {
  return headers_at(ranks) + to_pages(ranks * ranks * sizeof(RingHeader));
}

std::size_t losses_at(std::size_t ranks) noexcept {
  return data_at(ranks) + ranks * ranks * kRingBytes;
}

std::size_t bytes_for(std::size_t ranks, int job_ranks) noexcept {
  return losses_at(ranks) + to_pages(static_cast<std::size_t>(job_ranks) * sizeof(std::uint32_t));
}

}  // namespace

HostSegment::HostSegment(Mapping memory, std::vector<int> ranks, int job_ranks)
    : memory_(std::move(memory)),
      ranks_(std::move(ranks)),
      positions_(static_cast<std::size_t>(job_ranks), -1) {
  for (int p = 0; p < size(); ++p) positions_[static_cast<std::size_t>(rank(p))] = p;
}

Result<FileDescriptor> HostSegment::make_memory(std::size_t ranks, int job_ranks) {
  if (ranks > kMaxLocalRanks) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} ranks on one host; at most {} are supported", ranks, kMaxLocalRanks));
  }
  return make_memory_file("ronde-control", bytes_for(ranks, job_ranks));
}

Result<std::unique_ptr<HostSegment>> HostSegment::map(const FileDescriptor& memory,
                                                      std::vector<int> ranks, int job_ranks) {
  const std::size_t bytes = bytes_for(ranks.size(), job_ranks);
  if (!is_memory_file(memory.get(), bytes)) {
    return Status(Code::kInvalidArgument, "the shared memory of this host has the wrong size");
  }
  RONDE_ASSIGN_OR_RETURN(Mapping mapped, map_memory_file(memory.get(), bytes));
  return std::unique_ptr<HostSegment>(
      new HostSegment(std::move(mapped), std::move(ranks), job_ranks));
}

std::size_t HostSegment::pair(int from, int to) const noexcept {
  return static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to);
}

RankSlot& HostSegment::slot(int position) const noexcept {
  return reinterpret_cast<RankSlot*>(memory_.data())[position];
}

RingHeader& HostSegment::ring(int from, int to) const noexcept {
  std::byte* headers = memory_.data() + headers_at(ranks_.size());
  return reinterpret_cast<RingHeader*>(headers)[pair(from, to)];
}

std::span<std::byte> HostSegment::ring_data(int from, int to) const noexcept {
  std::byte* data = memory_.data() + data_at(ranks_.size());
  return {data + pair(from, to) * kRingBytes, kRingBytes};
}

HostSegment::LossWord& HostSegment::loss_word(int rank) const noexcept {
  return reinterpret_cast<LossWord*>(memory_.data() + losses_at(ranks_.size()))[rank];
}

bool HostSegment::note_loss(const LostRank& lost) const noexcept {
  std::uint32_t unknown = 0;
  const std::uint32_t word = (static_cast<std::uint32_t>(lost.reporter) << kLossBits) |
                             (static_cast<std::uint32_t>(lost.how) + 1);
  return loss_word(lost.rank).compare_exchange_strong(unknown, word, std::memory_order_seq_cst);
}

void HostSegment::announce_losses() const noexcept {
  for (int p = 0; p < size(); ++p) {
    slot(p).inbox.news.fetch_add(1, std::memory_order_seq_cst);
    Doorbell doorbell(slot(p).doorbell);
    doorbell.wake(Sleeper::kBackground);
    doorbell.wake(Sleeper::kCaller);
  }
}

std::optional<LostRank> HostSegment::loss(int rank) const noexcept {
  const std::uint32_t word = loss_word(rank).load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  const auto how = static_cast<Loss>((word & ((1U << kLossBits) - 1)) - 1);
  return LostRank{rank, how, static_cast<int>(word >> kLossBits)};
}

LossReader::LossReader(const HostSegment& segment, int position)
    : segment_(segment),
      news_(segment.slot(position).inbox.news),
      known_(static_cast<std::size_t>(segment.job_size())) {}

bool LossReader::read(const std::function<void(const LostRank&)>& on_lost) {
  seen_ = news_.load(std::memory_order_seq_cst);
  // A rank of this host has noted what it knew before it was lost: so look at the others after it.
  const std::vector<LostRank> local = new_losses(/*local=*/true);
  std::vector<LostRank> losses = new_losses(/*local=*/false);
  losses.insert(losses.end(), local.begin(), local.end());
  for (const LostRank& lost : losses) {
    known_[static_cast<std::size_t>(lost.rank)] = true;
    on_lost(lost);
  }
  return !losses.empty();
}

/// Those of the ranks of this host, or of the others.
std::vector<LostRank> LossReader::new_losses(bool local) const {
  std::vector<LostRank> losses;
  for (int rank = 0; rank < segment_.job_size(); ++rank) {
    const bool is_local = segment_.position(rank) >= 0;
    if (is_local != local || known_[static_cast<std::size_t>(rank)]) continue;
    if (const auto lost = segment_.loss(rank)) losses.push_back(*lost);
  }
  return losses;
}

}  // namespace ronde::net
