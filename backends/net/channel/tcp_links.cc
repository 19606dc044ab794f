#include "backends/net/channel/tcp_links.h"

#include <unistd.h>

#include <utility>

#include "backends/net/channel/link_thread.h"

namespace ronde::net {

TcpLinks::TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks)
    : thread_(std::make_unique<LinkThread>(topology, std::move(args), limits, std::move(hooks))),
      arrived_(&thread_->arrived()) {}

TcpLinks::~TcpLinks() {
  // A forked child shares the parent's epoll instance. Closing the sockets there would end the
  // parent's events, so the child leaks the memory.
  if (::getpid() != thread_->process()) (void)thread_.release();
}

Status TcpLinks::connect(const WaitLimit& limit) { return thread_->connect(limit); }

void TcpLinks::send(int to, std::span<const std::byte> frame) { thread_->send(to, frame); }

void TcpLinks::pass_on(const LostRank& lost) { thread_->pass_on(lost); }

bool TcpLinks::is_linked(int rank) const { return thread_->is_linked(rank); }

bool TcpLinks::poll_slowly(const LinkEvents& events) { return thread_->deliver(events); }

void TcpLinks::close() noexcept {
  if (::getpid() == thread_->process()) thread_->close();
}

}  // namespace ronde::net
