#include "backends/net/rendezvous/connector.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/base/bytes.h"
#include "core/base/log.h"

namespace ronde::net {
namespace {

constexpr std::chrono::microseconds kFirstBackoff{200};
constexpr std::chrono::milliseconds kLongestBackoff{50};
constexpr std::size_t kSpareHandshakes = 64;

}  // namespace

/// One connection on its way through the handshake.
struct Connector::Pending {
  Pending(FileDescriptor fd, const Party& party, int rank)
      : socket(std::move(fd)),
        handshake(party, rank < 0 ? Handshake::Role::kListener : Handshake::Role::kDialer, rank),
        deadline(now() + kHandshakeLimit),
        dialed_rank(rank),
        connecting(rank >= 0) {}

  /// Sends and receives what the socket takes and gives now. Ok while nothing is wrong.
  Status advance();
  Status receive();
  Status write_out();
  [[nodiscard]] bool done() const noexcept { return handshake.wants() == 0 && output.empty(); }

  FileDescriptor socket;
  Handshake handshake;
  TimePoint deadline;
  int dialed_rank;  // -1: accepted
  bool connecting;
  bool ready = false;
  std::string output;
  std::vector<std::byte> input;
};

Status Connector::Pending::write_out() {
  output += handshake.take_output();
  while (!output.empty()) {
    const ssize_t sent = ::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return {};
    if (sent < 0) return {Code::kUnavailable, std::generic_category().message(errno)};
    output.erase(0, static_cast<std::size_t>(sent));
  }
  return {};
}

Status Connector::Pending::receive() {
  while (handshake.wants() != 0) {
    const std::size_t used = input.size();
    input.resize(handshake.wants());  // never more: what follows belongs to the socket's next owner
    const ssize_t got = ::recv(socket.get(), input.data() + used, input.size() - used, 0);
    input.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return {Code::kUnavailable, "the peer closed the connection"};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0) return {Code::kUnavailable, std::generic_category().message(errno)};
    if (input.size() < handshake.wants()) continue;
    const Status status = handshake.consume(input);
    input.clear();
    const Status written = write_out();
    RONDE_RETURN_IF_ERROR(status);
    RONDE_RETURN_IF_ERROR(written);
  }
  return {};
}

Status Connector::Pending::advance() {
  if (connecting) {
    RONDE_RETURN_IF_ERROR(connect_result(socket.get()));
    connecting = false;
  }
  RONDE_RETURN_IF_ERROR(write_out());
  return receive();
}

Connector::Connector(const Party& party, std::string greeting)
    : party_(party), greeting_(std::move(greeting)) {}

Connector::~Connector() = default;

void Connector::dial(int rank, const Endpoint& endpoint) {
  dials_[rank] = Dial{endpoint, now(), kFirstBackoff, false, {}};
}

std::string Connector::last_failure(int rank) const {
  const auto found = dials_.find(rank);
  return found == dials_.end() ? std::string() : found->second.failure;
}

Status Connector::add_pending(FileDescriptor socket, int dialed_rank) {
  if (pending_.size() >= kSpareHandshakes + static_cast<std::size_t>(party_.size)) {
    // Under a flood the oldest is dropped: a rank of the job needs milliseconds, and tries again.
    if (pending_.front().dialed_rank >= 0) fail_dial(pending_.front().dialed_rank, "too busy");
    pending_.pop_front();
  }
  Pending& pending = pending_.emplace_back(std::move(socket), party_, dialed_rank);
  return pending.handshake.start();
}

void Connector::accept_all() {
  if (!acceptable_) return;
  acceptable_ = false;
  for (int i = 0; i < 64; ++i) {
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    const auto endpoint = local_endpoint(socket.get());
    const bool local = endpoint.ok() && endpoint->family() == AF_UNIX;
    if (local && !is_same_user(socket.get())) continue;
    set_no_delay(socket.get());
    const int fd = socket.get();
    if (!add_pending(std::move(socket), -1).ok()) {
      pending_.pop_back();
      continue;
    }
    if (!greeting_.empty()) pending_.back().output = greeting_;
    log(LogLevel::kDebug, "control channel: connection {} begins a handshake", fd);
  }
}

void Connector::fail_dial(int rank, const std::string& why) {
  const auto found = dials_.find(rank);
  if (found == dials_.end()) return;
  Dial& dial = found->second;
  dial.in_progress = false;
  dial.failure = why;
  dial.next_attempt = now() + dial.backoff;
  dial.backoff = std::min<Duration>(2 * dial.backoff, kLongestBackoff);
}

void Connector::start_due_dials() {
  for (auto& [rank, dial] : dials_) {
    if (dial.in_progress || now() < dial.next_attempt) continue;
    dial.in_progress = true;
    auto socket = start_connect(dial.endpoint);
    if (!socket.ok()) {
      fail_dial(rank, socket.status().message());
    } else if (const Status started = add_pending(std::move(*socket), rank); !started.ok()) {
      pending_.pop_back();
      fail_dial(rank, started.message());
    }
  }
}

void Connector::expire() {
  const TimePoint time = now();
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (time < it->deadline) {
      ++it;
      continue;
    }
    fail_dial(it->dialed_rank, "no answer to the handshake");
    it = pending_.erase(it);
  }
}

TimePoint Connector::next_due(TimePoint deadline) const {
  for (const Pending& pending : pending_) deadline = std::min(deadline, pending.deadline);
  for (const auto& [rank, dial] : dials_) {
    if (!dial.in_progress) deadline = std::min(deadline, dial.next_attempt);
  }
  return deadline;
}

/// Returns early when `cancel_fd` becomes readable.
void Connector::poll_once(TimePoint deadline, int cancel_fd) {
  std::vector<pollfd> entries;
  for (const Pending& pending : pending_) {
    const bool writes = pending.connecting || !pending.output.empty();
    entries.push_back(
        {pending.socket.get(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  for (const auto& [rank, fd] : watched_) entries.push_back({fd, POLLIN | POLLRDHUP, 0});
  if (listener_.valid()) entries.push_back({listener_.get(), POLLIN, 0});
  entries.push_back({cancel_fd, POLLIN, 0});
  // Sub-millisecond, since the first backoffs are.
  const Duration left =
      std::clamp<Duration>(deadline - now(), Duration::zero(), std::chrono::seconds(3600));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec timeout{static_cast<time_t>(seconds.count()),
                         static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
  if (::ppoll(entries.data(), entries.size(), &timeout, nullptr) <= 0) return;
  auto entry = entries.begin();
  for (Pending& pending : pending_) pending.ready = (entry++)->revents != 0;
  for (const auto& [rank, fd] : watched_) {
    if ((entry++)->revents != 0) readable_.push_back(rank);
  }
  acceptable_ = listener_.valid() && entry->revents != 0;
}

ConnectorEvent Connector::admit(Pending& pending) {
  const int rank = pending.handshake.peer_rank();
  if (pending.dialed_rank >= 0) dials_.erase(pending.dialed_rank);
  return {ConnectorEvent::Kind::kAdmitted, rank, Stream(std::move(pending.socket)),
          pending.handshake.peer()};
}

Connector::Outcome Connector::serve(std::list<Pending>::iterator pending) {
  pending->ready = false;
  const Status status = pending->advance();
  if (status.ok() && !pending->done()) return std::optional<ConnectorEvent>();
  std::optional<ConnectorEvent> event;
  if (status.ok()) event = admit(*pending);
  const int dialed = pending->dialed_rank;
  pending_.erase(pending);
  if (status.code() == Code::kVersionMismatch) return status;
  if (!status.ok()) {
    log(LogLevel::kDebug, "control channel: a connection was refused: {}", status.message());
    fail_dial(dialed, status.message());
  }
  return event;
}

Connector::Outcome Connector::serve_ready() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto current = it++;
    if (!current->ready) continue;
    Outcome outcome = serve(current);
    if (!outcome.ok() || outcome->has_value()) return outcome;
  }
  return std::optional<ConnectorEvent>();
}

Result<ConnectorEvent> Connector::next(const WaitLimit& limit) {
  while (true) {
    accept_all();
    start_due_dials();
    expire();
    Outcome outcome = serve_ready();
    if (!outcome.ok()) return outcome.status();
    if (outcome->has_value()) return std::move(**outcome);
    if (!readable_.empty()) {
      ConnectorEvent event;
      event.kind = ConnectorEvent::Kind::kReadable;
      event.rank = readable_.back();
      readable_.pop_back();
      return event;
    }
    if (limit.passed()) return ConnectorEvent{};
    readable_.clear();
    poll_once(next_due(limit.deadline()), limit.fd());
  }
}

}  // namespace ronde::net
