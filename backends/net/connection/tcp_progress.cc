// A file of its own, as the kernel's header and the C library's cannot be included together.
#include "backends/net/connection/tcp_progress.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ronde::net {

TcpProgress tcp_progress(int fd) noexcept {
  tcp_info info{};
  socklen_t size = sizeof(info);
  int queued = 0;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  if (::ioctl(fd, SIOCOUTQ, &queued) != 0) return {};
  return {queued > 0, info.tcpi_bytes_acked, info.tcpi_rwnd_limited, info.tcpi_probes};
}

}  // namespace ronde::net
