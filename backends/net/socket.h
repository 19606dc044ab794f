// Descriptors, addresses and the few socket calls that the meeting of ranks needs. Every socket is
// non-blocking and closed on exec; whoever waits does so in poll() with a deadline.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"

namespace ronde::net {

/// Owns one descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Whether errno says that a call on a non-blocking descriptor would have had to wait.
inline bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

/// A Unix or TCP socket address.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] int family() const noexcept { return address.ss_family; }
  /// "10.0.0.1:4000", "[::1]:4000" or "@name".
  [[nodiscard]] std::string text() const;
  /// Of a TCP address.
  [[nodiscard]] std::uint16_t port() const;
  /// The same address with another port; Unix addresses have none.
  [[nodiscard]] Endpoint with_port(std::uint16_t port) const;
  /// Whether it means "all interfaces".
  [[nodiscard]] bool is_wildcard() const;
};

/// A name in the abstract Unix namespace: gone with its last descriptor, also after SIGKILL.
Endpoint abstract_endpoint(std::string_view name);

/// Splits and resolves "host:port" or "[v6]:port". Blocks (name service).
/// Errors: kInvalidArgument where it is malformed, kUnavailable where it does not resolve.
Result<std::vector<Endpoint>> resolve(const std::string& host_and_port);

/// Reads what Endpoint::text wrote, without a name service.
Result<Endpoint> parse_endpoint(const std::string& text);

/// The address of an interface, given by its name or by the address itself; port 0.
/// Errors: kInvalidArgument naming what is there.
Result<Endpoint> interface_endpoint(const std::string& name_or_address);

/// Listens; never on all interfaces. Errors: kInvalidArgument, kUnavailable.
Result<Fd> listen_on(const Endpoint& endpoint);

/// The address a socket is bound to.
Result<Endpoint> local_endpoint(int fd);

/// The address, with port 0, that this host uses to reach `endpoint`; nothing is sent.
Result<Endpoint> source_towards(const Endpoint& endpoint);

/// Begins to connect; poll for writing, then ask connect_result().
Result<Fd> start_connect(const Endpoint& endpoint);

/// How a connection attempt ended.
Status connect_result(int fd);

/// Switches delays off on a TCP socket; nothing on others.
void set_no_delay(int fd);

/// Whether the process at the other end of a Unix socket belongs to this user.
bool same_user(int fd);

/// Sleeps until `fd` has one of `events` or the deadline passed; false then.
bool wait_for(int fd, short events, TimePoint deadline);

/// poll()'s timeout until `deadline`, rounded up; -1 for kForever.
int poll_timeout_ms(TimePoint deadline);

/// Sends all or fails. Errors: kTimeout, kUnavailable.
Status send_all(int fd, std::span<const std::byte> bytes, TimePoint deadline);

/// Receives exactly that many. Errors: kTimeout, kUnavailable (closed).
Status recv_all(int fd, std::span<std::byte> bytes, TimePoint deadline);

/// One message: 4 bytes of length, then the text.
Status send_message(int fd, std::string_view text, TimePoint deadline);
/// Errors: as recv_all; kInvalidArgument where it announces more than `limit` bytes.
Result<std::string> recv_message(int fd, std::size_t limit, TimePoint deadline);

/// Passes an open descriptor over a Unix socket, with one byte.
Status send_descriptor(int fd, int passed, TimePoint deadline);
Result<Fd> recv_descriptor(int fd, TimePoint deadline);

}  // namespace ronde::net
