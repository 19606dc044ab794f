#include "tests/chaos/floor.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tests/chaos/events.h"

namespace ronde::chaos {
namespace {

struct Child {
  pid_t pid = 0;
  int watch = -1;   // pidfd
  int socket = -1;  // the parent's end
};

int child_main(int number, int socket, long hold_mb) {
  set_event_rank(number);
  hold_memory(hold_mb);
  say("ready");
  char byte = 0;
  const bool told = ::read(socket, &byte, 1) == 1;
  if (told) say("told");
  return told ? 0 : 1;
}

Child start(int number, long hold_mb) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) {
    throw std::runtime_error("no socket pair");
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::_exit(child_main(number, ends[1], hold_mb));
  }
  ::close(ends[1]);
  return {pid, static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), ends[0]};
}

/// The number of the first child that ends.
std::size_t first_death(const std::vector<Child>& children) {
  std::vector<pollfd> polled;
  for (const Child& child : children) polled.push_back({child.watch, POLLIN, 0});
  (void)::poll(polled.data(), polled.size(), -1);
  std::size_t dead = 0;
  while (dead + 1 < polled.size() && polled[dead].revents == 0) ++dead;
  return dead;
}

}  // namespace

void hold_memory(long megabytes) {
  if (megabytes == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(megabytes) << 20;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot hold memory");
}

int watch_children(int size, long hold_mb) {
  std::vector<Child> children;
  for (int number = 0; number < size; ++number) children.push_back(start(number, hold_mb));
  const std::size_t dead = first_death(children);
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (i != dead) (void)::send(children[i].socket, "", 1, MSG_NOSIGNAL);
  }
  for (const Child& child : children) ::waitpid(child.pid, nullptr, 0);
  return 0;
}

}  // namespace ronde::chaos
