// The socket calls of the rendezvous. Each socket is non-blocking and closed on exec; waits are in
// poll() with a deadline.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/status.h"

namespace ronde::net {

/// True for the errno of a call that would have blocked.
inline bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

/// Splits and resolves "host:port", "[v6]:port" or "host:port,port", which has all addresses of
/// the host with the first port first. Blocks (name service).
/// Errors: kInvalidArgument where it is malformed, kUnavailable where it does not resolve.
Result<std::vector<Endpoint>> resolve(const std::string& host_and_port);

/// Reads what Endpoint::text wrote, without a name service.
Result<Endpoint> parse_endpoint(const std::string& text);

/// The address of an interface, given by its name or by the address itself; port 0.
/// Errors: kInvalidArgument naming what is there.
Result<Endpoint> interface_endpoint(const std::string& name_or_address);

/// Listens; never on all interfaces. Errors: kInvalidArgument, kUnavailable.
Result<FileDescriptor> listen_on(const Endpoint& endpoint);

/// The address, with port 0, that this host uses to reach `endpoint`; nothing is sent.
Result<Endpoint> source_towards(const Endpoint& endpoint);

/// The two ends of a connection to make.
struct Route {
  Endpoint to;
  Endpoint from = {};  ///< An address of this host, port 0; empty: as the kernel chooses.
};

/// Begins to connect; poll for writing, then ask connect_result(). Errors: kRankFailure where
/// nobody listens, else kUnavailable.
Result<FileDescriptor> start_connect(const Route& route);

/// How a connection attempt ended. Errors: as start_connect.
Status connect_result(int fd);

/// Switches delays off on a TCP socket; nothing on others.
void set_no_delay(int fd);

/// The end of a wait: a deadline, or a request before it. Both end it alike.
class WaitLimit {
 public:
  /// `cancel`, where not null, outlives the limit.
  WaitLimit(TimePoint deadline = kForever,  // NOLINT(google-explicit-constructor)
            const CancelSource* cancel = nullptr) noexcept
      : deadline_(deadline), cancel_(cancel) {}

  /// The same request, and this long from now at most.
  [[nodiscard]] WaitLimit within(Duration longest) const {
    return {std::min(deadline_, now() + longest), cancel_};
  }
  [[nodiscard]] TimePoint deadline() const noexcept { return deadline_; }
  /// For poll(); -1 where nothing but the deadline ends the wait.
  [[nodiscard]] int fd() const noexcept { return cancel_ == nullptr ? -1 : cancel_->fd; }
  [[nodiscard]] bool passed() const {
    return now() >= deadline_ || (cancel_ != nullptr && !cancel_->status().ok());
  }
  /// Returns early when fd() becomes readable.
  void sleep(Duration pause) const;

 private:
  TimePoint deadline_;
  const CancelSource* cancel_;
};

/// A time for ppoll(), an hour at most.
timespec timespec_of(Duration left) noexcept;

/// Sleeps until `fd` has one of `events` or the limit has passed; false then.
bool wait_for(int fd, short events, const WaitLimit& limit);

/// Passes an open descriptor over a Unix socket, with one byte.
Status send_descriptor(int fd, int passed, const WaitLimit& limit);
Result<FileDescriptor> recv_descriptor(int fd, const WaitLimit& limit);

// Non-blocking reads and writes of a stream socket, in pieces.

/// Sends from the start of `pieces`; returns how many bytes went. 0: it would block.
/// Errors: as Stream.
Result<std::size_t> send_pieces(int fd, std::span<const iovec> pieces);

/// The result of a read.
struct Received {
  std::size_t bytes = 0;  ///< 0: it would block, or it ended.
  bool ended = false;     ///< The peer closed the connection.
};

/// Fills `pieces` from their start. Errors: as Stream.
Result<Received> receive_pieces(int fd, std::span<const iovec> pieces);

/// The bytes of all pieces.
std::size_t total_of(std::span<const iovec> pieces) noexcept;

// The ways from this rank to ranks of other hosts.

/// Most network interfaces that a job uses.
inline constexpr std::size_t kMostInterfaces = 8;

struct Routes {
  /// Of this rank, port 0; several: a connection is bound to its interface.
  std::vector<Endpoint> interfaces;
  /// By rank of the job, then by interface: where each accepts.
  std::vector<std::vector<Endpoint>> addresses;

  /// The number of ways to a rank.
  [[nodiscard]] std::size_t count() const noexcept {
    return interfaces.empty() ? 1 : interfaces.size();
  }
  /// That over this interface.
  [[nodiscard]] Route to(int rank, std::size_t interface) const {
    const Endpoint& end = addresses[static_cast<std::size_t>(rank)][interface];
    return interfaces.size() > 1 ? Route{end, interfaces[interface]} : Route{end};
  }
};

}  // namespace ronde::net
