#include "backends/net/mesh/connector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/base/log.h"

namespace ronde::net {
namespace {

constexpr std::chrono::microseconds kFirstBackoff{200};
constexpr std::chrono::milliseconds kLongestBackoff{50};
constexpr std::chrono::milliseconds kLongestInRendezvous{20};
constexpr std::chrono::milliseconds kLongestOnHost{2};  // no rank listens yet: a cheap call
constexpr std::size_t kSpareHandshakes = 64;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{50};
/// A handshake reads and writes until the socket has no more.
constexpr std::uint32_t kAllChanges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// Finds `identity` alone, which the caller owns.
IdentityLookup only(const Identity& identity) {
  return [&identity, context = hash_of_context(identity.context)](Purpose purpose,
                                                                  const Digest& asked) {
    const bool meant = purpose == identity.purpose && equal(asked, context);
    return std::shared_ptr<const Identity>(std::shared_ptr<void>(), meant ? &identity : nullptr);
  };
}

Status system_error(int error) {
  return {Code::kUnavailable, std::generic_category().message(error)};
}

bool is_local(const Endpoint& endpoint) { return endpoint.family() == AF_UNIX; }

/// True for a Unix socket with a process of this user, and for other sockets.
bool is_own_user(const FileDescriptor& socket) {
  const auto endpoint = local_endpoint(socket.get());
  return !endpoint.ok() || !is_local(*endpoint) || is_same_user(socket.get());
}

/// Adds a descriptor, or changes its events.
void set_events(const FileDescriptor& events, int operation, int fd, std::uint32_t wanted) {
  epoll_event event{};
  event.events = wanted;
  event.data.fd = fd;
  (void)::epoll_ctl(events.get(), operation, fd, &event);
}

}  // namespace

Connector::Dial::Dial(const DialArgs& wanted)
    : args(wanted), failures(wanted.endpoints.size()), backoff(kFirstBackoff) {}

bool Connector::Dial::is_final(Code code) const {
  return disagrees(code) || (args.rendezvous && code == Code::kInvalidArgument);
}

void Connector::Dial::fail(const Status& why, bool explained) {
  in_progress = false;
  failure = why;
  if (explained || !failures[turn].explained) failures[turn] = {why.message(), explained};
  const bool refused =
      args.rendezvous ? why.code() != Code::kTimeout : why.code() == Code::kRankFailure;
  if (!refused) {
    refused_since.reset();
  } else if (!refused_since) {
    refused_since = now();
  }
  if (is_final(why.code())) args.deadline = now();
  next_attempt = now();
  turn = (turn + 1) % args.endpoints.size();
  if (turn != 0) return;
  next_attempt += backoff;
  const Duration longest = is_local(endpoint()) ? kLongestOnHost
                           : args.rendezvous    ? kLongestInRendezvous
                                                : kLongestBackoff;
  backoff = std::min<Duration>(2 * backoff, longest);
}

std::string Connector::Dial::describe_failures() const {
  if (!args.rendezvous) return failure.message();
  std::map<std::string, std::vector<std::string>> by_reason;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const std::string& text = failures[i].text;
    by_reason[text.empty() ? "no answer" : text].push_back(args.endpoints[i].text());
  }
  std::vector<std::string> parts;
  parts.reserve(by_reason.size());
  for (const auto& [reason, where] : by_reason) {
    parts.push_back(fmt::format("{}: {}", fmt::join(where, ", "), reason));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// One connection on its way through the handshake.
struct Connector::Pending {
  Pending(FileDescriptor fd, const IdentityLookup& lookup)
      : socket(std::move(fd)), handshake(lookup) {}
  Pending(FileDescriptor fd, const DialArgs& args)
      : socket(std::move(fd)),
        handshake(args.read_greeting ? Handshake(args.read_greeting, args.rank)
                                     : Handshake(args.identity, args.rank)),
        dial(DialKey{args.identity.get(), args.rank}),
        connecting(true) {}

  /// Sends and receives what the socket takes and gives now. Ok while nothing is wrong.
  Status advance();
  Status receive();
  Status write_out();
  [[nodiscard]] bool done() const noexcept { return handshake.wants() == 0 && output.empty(); }

  FileDescriptor socket;
  Handshake handshake;
  TimePoint deadline = now() + kHandshakeLimit;
  std::optional<DialKey> dial;  // none: accepted
  bool connecting = false;
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
    if (sent < 0) return system_error(errno);
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
    if (got < 0) return system_error(errno);
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
    if (!is_own_user(socket)) return {Code::kUnavailable, "another user's process answers there"};
  }
  RONDE_RETURN_IF_ERROR(write_out());
  return receive();
}

Connector::Connector(const Identity& identity, std::string greeting)
    : events_(::epoll_create1(EPOLL_CLOEXEC)),
      lookup_(only(identity)),
      most_handshakes_(kSpareHandshakes + static_cast<std::size_t>(identity.size)),
      greeting_(std::move(greeting)) {}

Connector::Connector(IdentityLookup lookup, int ranks)
    : events_(::epoll_create1(EPOLL_CLOEXEC)),
      lookup_(std::move(lookup)),
      most_handshakes_(kSpareHandshakes + static_cast<std::size_t>(ranks)) {}

Connector::~Connector() = default;

void Connector::listen(FileDescriptor listener) {
  set_events(events_, EPOLL_CTL_ADD, listener.get(), 0);
  listeners_.push_back({std::move(listener)});
}

void Connector::watch(int rank, int fd) {
  watched_[rank] = fd;
  set_events(events_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP);
}

void Connector::unwatch(int rank) {
  const auto found = watched_.find(rank);
  if (found == watched_.end()) return;
  set_events(events_, EPOLL_CTL_DEL, found->second, 0);
  watched_.erase(found);
}

void Connector::dial(const DialArgs& args) {
  const DialKey key{args.identity.get(), args.rank};
  pending_.remove_if([&](const Pending& pending) { return pending.dial == key; });
  dials_.insert_or_assign(key, Dial(args));
}

void Connector::forget_dials(const Identity& identity) {
  std::erase_if(dials_, [&](const auto& entry) { return entry.first.first == &identity; });
  pending_.remove_if(
      [&](const Pending& pending) { return pending.dial && pending.dial->first == &identity; });
}

/// Under a flood the oldest is dropped: a rank of the job needs milliseconds, and tries again.
void Connector::make_room() {
  if (pending_.size() < most_handshakes_) return;
  if (pending_.front().dial) fail_dial(*pending_.front().dial, {Code::kUnavailable, "too busy"});
  pending_.pop_front();
}

void Connector::add_accepted(FileDescriptor socket) {
  if (!is_own_user(socket)) return;
  set_no_delay(socket.get());
  const int fd = socket.get();
  make_room();
  Pending& pending = pending_.emplace_back(std::move(socket), lookup_);
  if (!pending.handshake.start().ok()) return pending_.pop_back();
  pending.output = greeting_;
  set_events(events_, EPOLL_CTL_ADD, fd, kAllChanges);
  log(LogLevel::kDebug, "control channel: connection {} begins a handshake", fd);
}

void Connector::accept_all() {
  for (Listener& listener : listeners_) {
    if (std::exchange(listener.ready, false)) accept_from(listener.socket);
    if (listener.armed || now() < accept_after_) continue;
    listener.armed = true;
    set_events(events_, EPOLL_CTL_MOD, listener.socket.get(), EPOLLIN | EPOLLONESHOT);
  }
}

void Connector::accept_from(const FileDescriptor& listener) {
  for (int i = 0; i < 64; ++i) {
    FileDescriptor socket(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      add_accepted(std::move(socket));
      continue;
    }
    // The listener stays readable, so that poll() would return at once, again and again.
    if (!would_block(errno)) accept_after_ = now() + kPauseWithoutDescriptors;
    return;
  }
}

void Connector::fail_dial(const DialKey& key, const Status& why, bool explained) {
  const auto found = dials_.find(key);
  if (found != dials_.end()) found->second.fail(why, explained);
}

Status Connector::start(Dial& dial) {
  RONDE_ASSIGN_OR_RETURN(FileDescriptor socket, start_connect({dial.endpoint(), dial.args.source}));
  make_room();
  const int fd = socket.get();
  const Status started = pending_.emplace_back(std::move(socket), dial.args).handshake.start();
  if (!started.ok()) pending_.pop_back();
  if (started.ok()) set_events(events_, EPOLL_CTL_ADD, fd, kAllChanges);
  return started;
}

void Connector::start_due_dials() {
  for (auto& [key, dial] : dials_) {
    if (dial.in_progress || now() < dial.next_attempt) continue;
    dial.in_progress = true;
    const Status started = start(dial);
    if (!started.ok()) fail_dial(key, started);
  }
}

/// The end of a dial that nobody answers in time.
std::optional<ConnectorEvent> Connector::give_up() {
  const TimePoint time = now();
  for (auto it = dials_.begin(); it != dials_.end(); ++it) {
    Dial& dial = it->second;
    const bool refused =
        dial.refused_since && time - *dial.refused_since >= dial.args.refusal_limit;
    if (!refused && time < dial.args.deadline) continue;
    ConnectorEvent event;
    event.kind = ConnectorEvent::Kind::kGivenUp;
    event.rank = dial.args.rank;
    const bool final = dial.is_final(dial.failure.code());
    event.status =
        final ? dial.failure
              : Status(refused ? Code::kRankFailure : Code::kTimeout, dial.describe_failures());
    event.identity = dial.args.identity;
    pending_.remove_if([&](const Pending& pending) { return pending.dial == it->first; });
    dials_.erase(it);
    return event;
  }
  return std::nullopt;
}

/// A process that is reached but does not answer is frozen, or busy. That is for the control
/// channel to judge, so the time does not count.
void Connector::on_silence(const Pending& pending) {
  const auto dial = dials_.find(*pending.dial);
  if (dial == dials_.end()) return;
  DialArgs& args = dial->second.args;
  const bool counts = pending.connecting || args.rendezvous;
  if (!counts && args.deadline < kForever - kHandshakeLimit) args.deadline += kHandshakeLimit;
  fail_dial(*pending.dial, {Code::kTimeout, "no answer to the handshake"});
}

void Connector::expire() {
  const TimePoint time = now();
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (time < it->deadline) {
      ++it;
      continue;
    }
    if (it->dial) on_silence(*it);
    it = pending_.erase(it);
  }
}

TimePoint Connector::next_due(TimePoint deadline) const {
  for (const Pending& pending : pending_) deadline = std::min(deadline, pending.deadline);
  for (const auto& [key, dial] : dials_) {
    deadline = std::min(deadline, dial.args.deadline);
    if (!dial.in_progress) deadline = std::min(deadline, dial.next_attempt);
  }
  for (const Listener& each : listeners_) {
    if (!each.armed) deadline = std::min(deadline, accept_after_);
  }
  return deadline;
}

/// Returns early when `cancel_fd` becomes readable.
void Connector::poll_once(TimePoint deadline, int cancel_fd) {
  std::array<pollfd, 2> entries{{{events_.get(), POLLIN, 0}, {cancel_fd, POLLIN, 0}}};
  const timespec timeout = timespec_of(deadline - now());  // the first backoffs are short
  if (::ppoll(entries.data(), entries.size(), &timeout, nullptr) <= 0) return;
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) note_ready(events[static_cast<std::size_t>(i)].data.fd);
}

void Connector::note_ready(int fd) {
  for (Pending& pending : pending_) pending.ready = pending.ready || pending.socket.get() == fd;
  for (const auto& [rank, watched] : watched_) {
    if (watched == fd) readable_.push_back(rank);
  }
  for (Listener& each : listeners_) {
    if (each.socket.get() != fd) continue;
    each.ready = true;
    each.armed = false;
  }
}

ConnectorEvent Connector::admit(Pending& pending) {
  ConnectorEvent event;
  if (const auto dial = pending.dial ? dials_.find(*pending.dial) : dials_.end();
      dial != dials_.end()) {
    event.took = now() - dial->second.args.ordered;
    dials_.erase(dial);
  }
  event.kind = ConnectorEvent::Kind::kAdmitted;
  event.rank = pending.handshake.peer_rank();
  event.dialed = pending.dial.has_value();
  set_events(events_, EPOLL_CTL_DEL, pending.socket.get(), 0);
  event.stream = Stream(std::move(pending.socket), pending.handshake.take_tls(),
                        pending.handshake.agreed_on_checksums());
  event.peer = pending.handshake.peer();
  event.identity = pending.handshake.identity();
  return event;
}

Connector::Outcome Connector::serve(std::list<Pending>::iterator pending) {
  pending->ready = false;
  const Status status = pending->advance();
  if (status.ok() && !pending->done()) return std::optional<ConnectorEvent>();
  std::optional<ConnectorEvent> event;
  if (status.ok()) event = admit(*pending);
  // One that only left may have died.
  if (status.code() == Code::kInvalidArgument && pending->handshake.awaits_proof()) {
    unproven_.insert(pending->handshake.peer_rank());
  }
  const std::optional<DialKey> dial = pending->dial;
  const bool explained = pending->handshake.greeted();
  pending_.erase(pending);
  if (disagrees(status.code()) && !dial) return status;
  if (status.ok()) return event;
  log(LogLevel::kDebug, "control channel: a connection was refused: {}", status.message());
  if (dial) fail_dial(*dial, status, explained);
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

std::optional<ConnectorEvent> Connector::take_readable() {
  if (readable_.empty()) return std::nullopt;
  ConnectorEvent event;
  event.kind = ConnectorEvent::Kind::kReadable;
  event.rank = readable_.back();
  readable_.pop_back();
  return event;
}

Result<ConnectorEvent> Connector::next(const WaitLimit& limit) {
  if (!events_.valid()) return Status(Code::kResourceExhausted, "no descriptor is left to connect");
  for (bool polled = false;; polled = true) {
    accept_all();
    start_due_dials();
    expire();
    Outcome outcome = serve_ready();
    if (!outcome.ok()) return outcome.status();
    if (!outcome->has_value()) outcome = give_up();
    if (!outcome->has_value()) outcome = take_readable();
    if (outcome->has_value()) return std::move(**outcome);
    if (polled && limit.passed()) return ConnectorEvent{};
    poll_once(next_due(limit.deadline()), limit.fd());
  }
}

}  // namespace ronde::net
