#include "backends/net/host_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <type_traits>

#include "core/base/file_limit.h"

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

std::size_t segment_bytes(std::size_t ranks) noexcept {
  return data_at(ranks) + ranks * ranks * kRingBytes;
}

Status exhausted(const char* what) {
  return {Code::kResourceExhausted,
          fmt::format("{}: {}", what, std::generic_category().message(errno))};
}

}  // namespace

Result<std::unique_ptr<HostSegment>> HostSegment::create(int ranks) {
  if (ranks > kMaxLocalRanks) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} ranks on one host; at most {} are supported", ranks, kMaxLocalRanks));
  }
  const std::size_t bytes = segment_bytes(static_cast<std::size_t>(ranks));
  RONDE_RETURN_IF_ERROR(check_file_limit(bytes));
  Fd fd(::memfd_create("ronde-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return exhausted("cannot make shared memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return exhausted("cannot size shared memory");
  }
  // Nobody can shrink it under a peer's feet, which would be a SIGBUS there.
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return map(std::move(fd), ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::attach(Fd fd, int ranks) {
  struct stat info {};
  const auto bytes = static_cast<off_t>(segment_bytes(static_cast<std::size_t>(ranks)));
  if (::fstat(fd.get(), &info) != 0 || info.st_size != bytes) {
    return Status(Code::kInvalidArgument, "the shared memory of this host has the wrong size");
  }
  return map(std::move(fd), ranks);
}

Result<std::unique_ptr<HostSegment>> HostSegment::map(Fd fd, int ranks) {
  void* base = ::mmap(nullptr, segment_bytes(static_cast<std::size_t>(ranks)),
                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (base == MAP_FAILED) return exhausted("cannot map shared memory");
  return std::unique_ptr<HostSegment>(
      new HostSegment(std::move(fd), static_cast<std::byte*>(base), ranks));
}

HostSegment::~HostSegment() { ::munmap(base_, segment_bytes(static_cast<std::size_t>(ranks_))); }

std::size_t HostSegment::pair(int from, int to) const noexcept {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
         static_cast<std::size_t>(to);
}

RankSlot& HostSegment::slot(int rank) const noexcept {
  return reinterpret_cast<RankSlot*>(base_)[rank];
}

RingHeader& HostSegment::ring(int from, int to) const noexcept {
  std::byte* headers = base_ + headers_at(static_cast<std::size_t>(ranks_));
  return reinterpret_cast<RingHeader*>(headers)[pair(from, to)];
}

std::span<std::byte> HostSegment::ring_data(int from, int to) const noexcept {
  std::byte* data = base_ + data_at(static_cast<std::size_t>(ranks_));
  return {data + pair(from, to) * kRingBytes, kRingBytes};
}

}  // namespace ronde::net
