#include "backends/net/control/host_segment.h"

#include <fmt/format.h>

#include <type_traits>

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

std::size_t losses_at(int count) noexcept {
  const auto ranks = static_cast<std::size_t>(count);
  return data_at(ranks) + ranks * ranks * kRingBytes;
}

std::size_t bytes_for(int ranks, int job_ranks) noexcept {
  return losses_at(ranks) + to_pages(static_cast<std::size_t>(job_ranks) * sizeof(std::uint32_t));
}

}  // namespace

Result<std::unique_ptr<HostSegment>> HostSegment::create(int ranks, int job_ranks) {
  if (ranks > kMaxLocalRanks) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} ranks on one host; at most {} are supported", ranks, kMaxLocalRanks));
  }
  RONDE_ASSIGN_OR_RETURN(FileDescriptor fd,
                         make_memory_file("ronde-control", bytes_for(ranks, job_ranks)));
  return map(std::move(fd), ranks, job_ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::attach(FileDescriptor fd, int ranks,
                                                         int job_ranks) {
  if (!is_memory_file(fd.get(), bytes_for(ranks, job_ranks))) {
    return Status(Code::kInvalidArgument, "the shared memory of this host has the wrong size");
  }
  return map(std::move(fd), ranks, job_ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::map(FileDescriptor fd, int ranks, int job_ranks) {
  RONDE_ASSIGN_OR_RETURN(Mapping memory, map_memory_file(fd.get(), bytes_for(ranks, job_ranks)));
  return std::unique_ptr<HostSegment>(
      new HostSegment(std::move(fd), std::move(memory), ranks, job_ranks));
}

std::size_t HostSegment::pair(int from, int to) const noexcept {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
         static_cast<std::size_t>(to);
}

RankSlot& HostSegment::slot(int rank) const noexcept {
  return reinterpret_cast<RankSlot*>(memory_.data())[rank];
}

RingHeader& HostSegment::ring(int from, int to) const noexcept {
  std::byte* headers = memory_.data() + headers_at(static_cast<std::size_t>(ranks_));
  return reinterpret_cast<RingHeader*>(headers)[pair(from, to)];
}

std::span<std::byte> HostSegment::ring_data(int from, int to) const noexcept {
  std::byte* data = memory_.data() + data_at(static_cast<std::size_t>(ranks_));
  return {data + pair(from, to) * kRingBytes, kRingBytes};
}

HostSegment::LossWord& HostSegment::loss_word(int rank) const noexcept {
  return reinterpret_cast<LossWord*>(memory_.data() + losses_at(ranks_))[rank];
}

bool HostSegment::note_far_loss(const LostRank& lost) const noexcept {
  std::uint32_t unknown = 0;
  const std::uint32_t word = (static_cast<std::uint32_t>(lost.reporter) << kLossBits) |
                             (static_cast<std::uint32_t>(lost.how) + 1);
  return loss_word(lost.rank).compare_exchange_strong(unknown, word, std::memory_order_acq_rel);
}

std::optional<LostRank> HostSegment::far_loss(int rank) const noexcept {
  const std::uint32_t word = loss_word(rank).load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  const auto how = static_cast<Loss>((word & ((1U << kLossBits) - 1)) - 1);
  return LostRank{rank, how, static_cast<int>(word >> kLossBits)};
}

}  // namespace ronde::net
