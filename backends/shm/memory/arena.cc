#include "backends/shm/memory/arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/shm/memory/layout.h"

namespace ronde::shm {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 30;
/// Allocations begin on borders of huge pages, so that the kernel may use them.
constexpr std::size_t kUnit = kHugePage;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// No more than the machine has.
std::size_t arena_bytes() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L));
  return round_up(std::min(pages * kPage, kMostBytes), kUnit);
}

}  // namespace

Result<std::shared_ptr<Arena>> Arena::create() {
  const std::size_t bytes = arena_bytes();
  RONDE_ASSIGN_OR_RETURN(FileDescriptor memory, create_memory(bytes));
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, map_memory(memory, bytes));
  return std::make_shared<Arena>(std::move(memory), std::move(mapping));
}

Arena::Arena(FileDescriptor memory, Mapping mapping)
    : memory_(std::move(memory)), mapping_(std::move(mapping)), owner_(getpid()) {
  free_.emplace(0, mapping_.bytes());
}

bool Arena::take(std::size_t bytes, std::size_t& offset) {
  MutexLock lock(mutex_);
  const auto fits = [&](const auto& range) { return range.second >= bytes; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) return false;
  offset = found->first;
  const std::size_t rest = found->second - bytes;
  free_.erase(found);
  if (rest > 0) free_.emplace(offset + bytes, rest);
  return true;
}

void Arena::give_back(std::size_t offset, std::size_t bytes) {
  MutexLock lock(mutex_);
  auto at = free_.emplace(offset, bytes).first;
  const auto next = std::next(at);
  if (next != free_.end() && offset + bytes == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != offset) return;
  before->second += at->second;
  free_.erase(at);
}

std::shared_ptr<std::byte> Arena::allocate(std::size_t bytes) {
  const std::size_t room = round_up(std::max<std::size_t>(bytes, 1), kUnit);
  std::size_t offset = 0;
  if (room < bytes || !take(room, offset)) return nullptr;
  const std::size_t used = round_up(std::max<std::size_t>(bytes, 1), kPage);
  // All of it exists from here on, so that no later access can fail.
  if (fallocate(fd(), 0, static_cast<off_t>(offset), static_cast<off_t>(used)) != 0) {
    release(offset, room);
    return nullptr;
  }
  use_huge_pages(base() + offset, used);
  return {base() + offset,
          [self = shared_from_this(), offset, room](std::byte*) { self->release(offset, room); }};
}

void Arena::release(std::size_t offset, std::size_t bytes) noexcept {
  if (getpid() != owner_) return;  // a forked child shares the memory, and must leave it alone
  fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  give_back(offset, bytes);
}

}  // namespace ronde::shm
