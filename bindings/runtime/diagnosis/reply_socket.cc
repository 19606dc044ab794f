#include "bindings/runtime/diagnosis/reply_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace ronde::diagnosis {
namespace {

constexpr std::size_t kMostClients = 16;
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kTimeout{5};
/// After so many at once no client is accepted for a moment: a flood must not take the job's cores.
constexpr int kCrowd = 16;
constexpr std::chrono::milliseconds kShut{10};
/// The interval of polling where the process had no descriptor left for the waker.
constexpr std::chrono::milliseconds kPollInterval{50};

bool comes_later() noexcept { return errno == EAGAIN || errno == EINTR; }

int poll_ms(TimePoint until) {
  if (until == kForever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

}  // namespace

Result<ReplySocket> ReplySocket::open(const Endpoint& at, const std::string& failure) {
  const int on = 1;
  FileDescriptor fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (at.family() != AF_UNIX) {
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (at.family() == AF_INET6) {
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (!fd.valid() || ::bind(fd.get(), at.raw(), at.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status(failure);
  }
  return ReplySocket(std::move(fd), at.family() == AF_UNIX);
}

void ReplySocket::gather(std::vector<pollfd>& into) const {
  if (accept_again_ <= now()) into.push_back({listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) {
    const short event = client.sends() ? POLLOUT : POLLIN;
    into.push_back({client.fd.get(), event, 0});
  }
}

TimePoint ReplySocket::next_turn() const {
  TimePoint next = accept_again_ > now() ? accept_again_ : kForever;
  for (const Client& client : clients_) next = std::min(next, client.deadline);
  return next;
}

void ReplySocket::accept(TimePoint time) {
  if (accept_again_ > time) return;
  for (int count = 0; count < kCrowd; ++count) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (!comes_later()) accept_again_ = time + kShut;  // no descriptors left
      return;
    }
    if (own_user_ && !is_same_user(fd.get())) continue;
    if (clients_.size() == kMostClients) {
      clients_.erase(std::ranges::min_element(clients_, {}, &Client::claim));
    }
    clients_.push_back({.fd = std::move(fd), .deadline = time + kTimeout});
  }
  accept_again_ = time + kShut;
}

void ReplySocket::turn(TimePoint time, const Answer& answer) {
  accept(time);
  std::erase_if(clients_,
                [&](Client& client) { return client.deadline <= time || !serve(client, answer); });
}

/// False once the client is done with.
bool ReplySocket::serve(Client& client, const Answer& answer) {
  if (client.sends()) return send(client);
  if (!receive(client)) return false;
  if (client.reply) return true;  // all is sent: only the client's own end is awaited
  client.reply = answer(client.request);
  return !client.reply || (client.sends() && send(client));
}

/// Receives what is there; false once the client is gone.
bool ReplySocket::receive(Client& client) {
  std::array<char, 4096> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t got = ::recv(client.fd.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) return comes_later();
  if (!client.reply) client.request.append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0;
}

/// Sends what fits; false once the client is gone.
bool ReplySocket::send(Client& client) {
  const std::string& reply = *client.reply;
  const ssize_t put =
      ::send(client.fd.get(), reply.data() + client.sent, reply.size() - client.sent, MSG_NOSIGNAL);
  if (put < 0) return comes_later();
  client.sent += static_cast<std::size_t>(put);
  // The client closes the connection: the kernel drops a reply that is closed on unread input.
  if (!client.sends()) (void)::shutdown(client.fd.get(), SHUT_WR);
  return true;
}

void wait_for(const Waker& waker, const ReplySocket* socket, TimePoint until) {
  std::vector<pollfd> polled = {{waker.fd(), POLLIN, 0}};
  if (waker.fd() < 0) until = std::min(until, now() + kPollInterval);
  if (socket != nullptr) {
    socket->gather(polled);
    until = std::min(until, socket->next_turn());
  }
  (void)::poll(polled.data(), polled.size(), poll_ms(until));
}

}  // namespace ronde::diagnosis
