#include "backends/shm/memory/reach.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace ronde::shm {
namespace {

/// How long the death watch has to report a peer whose memory is gone, and how often that is
/// checked.
constexpr std::chrono::seconds kVerdictLimit{5};
constexpr std::chrono::milliseconds kVerdictPoll{1};

/// Bytes gathered from many places by one call.
constexpr std::size_t kProbes = 128;

bool probe(std::span<const iovec> from) noexcept {
  std::array<std::byte, kProbes> bytes{};
  const iovec to{.iov_base = bytes.data(), .iov_len = from.size()};
  return process_vm_readv(getpid(), &to, 1, from.data(), from.size(), 0) ==
         static_cast<ssize_t>(from.size());
}

}  // namespace

bool can_read(pid_t pid, const void* from, void* to, std::size_t bytes) noexcept {
  const iovec remote{.iov_base = const_cast<void*>(from), .iov_len = bytes};
  const iovec local{.iov_base = to, .iov_len = bytes};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool can_write(pid_t pid, const void* from, void* to, std::size_t bytes) noexcept {
  const iovec local{.iov_base = const_cast<void*>(from), .iov_len = bytes};
  const iovec remote{.iov_base = to, .iov_len = bytes};
  return process_vm_writev(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

bool is_reachable(std::span<const Segment> segments) noexcept {
  std::array<iovec, kProbes> first{};
  std::size_t count = 0;
  const auto add = [&](const std::byte* address) {
    first[count++] = {.iov_base = const_cast<std::byte*>(address), .iov_len = 1};
    if (count < kProbes) return true;
    count = 0;
    return probe(first);
  };
  for (const Segment& segment : segments) {
    if (segment.bytes == 0) continue;
    if (segment.in == nullptr || segment.out == nullptr) return false;
    if (!add(segment.in)) return false;
    if (segment.in != segment.out && !add(segment.out)) return false;
  }
  return count == 0 || probe(std::span(first).first(count));
}

Status verdict(const Stop& stop, Status otherwise) {
  const TimePoint limit = now() + kVerdictLimit;
  while (now() < limit) {
    if (stop.poll()) return stop.status();
    std::this_thread::sleep_for(kVerdictPoll);
  }
  return otherwise;
}

void PeerCopy::add(const std::byte* from, std::byte* to, std::size_t bytes) {
  auto* here = const_cast<std::byte*>(from);
  std::byte* there = to;
  if (direction_ == Direction::kPull) std::swap(here, there);
  while (bytes > 0) {
    if (pieces_ == kPieces || bytes_ == kMostBytes) (void)finish();
    const std::size_t size = std::min(bytes, kMostBytes - bytes_);
    here_[pieces_] = {.iov_base = here, .iov_len = size};
    there_[pieces_++] = {.iov_base = there, .iov_len = size};
    bytes_ += size;
    here += size;
    there += size;
    bytes -= size;
  }
}

Status PeerCopy::finish() {
  if (pieces_ > 0 && status_.ok()) status_ = stop_.aborted() ? stop_.status() : copy();
  pieces_ = 0;
  bytes_ = 0;
  return status_;
}

Status PeerCopy::copy() {
  const auto call = direction_ == Direction::kPull ? &process_vm_readv : &process_vm_writev;
  const ssize_t copied = call(pid_, here_.data(), pieces_, there_.data(), pieces_, 0);
  if (copied == static_cast<ssize_t>(bytes_)) return {};
  const int error = copied < 0 ? errno : EFAULT;
  return verdict(
      stop_, {Code::kRankFailure, fmt::format("shared memory: the memory of process {} is gone: {}",
                                              pid_, std::generic_category().message(error))});
}

}  // namespace ronde::shm
