#include "backends/shm/memory/write_permission.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "core/base/clock.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::shm {
namespace {

constexpr std::chrono::microseconds kPoll{50};

/// A process that died in the middle of a write is still announced, but writes no more.
bool is_gone(pid_t pid) noexcept {
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) return errno == ESRCH;
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) == 1;
}

}  // namespace

bool WritePermission::is_written_by(int rank) const noexcept {
  return flag(rank).writing_to.load(std::memory_order_seq_cst) ==
         static_cast<std::uint32_t>(rank_) + 1;
}

void WritePermission::revoke(std::span<const pid_t> pids,
                             std::chrono::milliseconds limit) noexcept {
  flag(rank_).revoked.store(1, std::memory_order_seq_cst);
  const TimePoint deadline = now() + limit;
  for (std::size_t r = 0; r < pids.size(); ++r) {
    while (is_written_by(static_cast<int>(r)) && !is_gone(pids[r]) && now() < deadline) {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

}  // namespace ronde::shm
