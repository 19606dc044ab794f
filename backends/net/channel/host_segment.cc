#include "backends/net/channel/host_segment.h"

#include <fmt/format.h>

#include <type_traits>

namespace ronde::net {
namespace {

// A fresh memfd is all zeros, and zeros are the start state of every word in it.
static_assert(std::is_trivially_destructible_v<RankSlot>);
static_assert(std::is_trivially_destructible_v<RingHeader>);

constexpr std::size_t kPage = 4096;

constexpr std::size_t to_pages(std::size_t bytes) noexcept {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t headers_at(std::size_t ranks) noexcept { return to_pages(ranks * sizeof(RankSlot)); }

std::size_t data_at(std::size_t ranks) noexcept {
  return headers_at(ranks) + to_pages(ranks * ranks * sizeof(RingHeader));
}

std::size_t bytes_for(int count) noexcept {
  const auto ranks = static_cast<std::size_t>(count);
  return data_at(ranks) + ranks * ranks * kRingBytes;
}

}  // namespace

Result<std::unique_ptr<HostSegment>> HostSegment::create(int ranks) {
  if (ranks > kMaxLocalRanks) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} ranks on one host; at most {} are supported", ranks, kMaxLocalRanks));
  }
  RONDE_ASSIGN_OR_RETURN(FileDescriptor fd, make_memory_file("ronde-control", bytes_for(ranks)));
  return map(std::move(fd), ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::attach(FileDescriptor fd, int ranks) {
  if (!is_memory_file(fd.get(), bytes_for(ranks))) {
    return Status(Code::kInvalidArgument, "the shared memory of this host has the wrong size");
  }
  return map(std::move(fd), ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::map(FileDescriptor fd, int ranks) {
  RONDE_ASSIGN_OR_RETURN(Mapping memory, map_memory_file(fd.get(), bytes_for(ranks)));
  return std::unique_ptr<HostSegment>(new HostSegment(std::move(fd), std::move(memory), ranks));
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

}  // namespace ronde::net
