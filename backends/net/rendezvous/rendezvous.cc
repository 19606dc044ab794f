#include "backends/net/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::chrono::microseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLongestRetry{20};
constexpr std::chrono::milliseconds kLongestLocalRetry{2};  // no rank listens yet: a cheap call

/// The ranks that have come, as the host sees them.
class Assembly {
 public:
  explicit Assembly(const HostArgs& args)
      : args_(args), missing_(args.guests.begin(), args.guests.end()) {}

  [[nodiscard]] int connections() const noexcept { return static_cast<int>(guests_.size()); }
  [[nodiscard]] int messages() const noexcept { return messages_; }

  Status gather() {
    while (!missing_.empty()) {
      auto event = args_.connector->next(args_.limit);
      if (!event.ok()) return event.status();
      RONDE_RETURN_IF_ERROR(handle(std::move(*event)));
    }
    return {};
  }

  /// Best effort: a guest that does not receive it finds the connection closed.
  void send_all_guests(const std::string& verdict) {
    const TimePoint deadline = now() + kMessageLimit;
    for (auto& [rank, guest] : guests_) {
      (void)send_message(guest, verdict, deadline).ok();
      ++messages_;
    }
  }

  /// Guests may still send after an error.
  void linger() {
    const WaitLimit limit = args_.limit.until(now() + kLinger);
    for (auto& [rank, guest] : guests_) drain(guest, limit);
  }

  [[nodiscard]] Roster roster() const {
    Roster roster = come_;
    roster[args_.party->rank] = args_.party->self;
    return roster;
  }

 private:
  Status handle(ConnectorEvent event) {
    switch (event.kind) {
      case ConnectorEvent::Kind::kAdmitted:
        return seat(std::move(event));
      case ConnectorEvent::Kind::kReadable:
        return on_readable(event.rank);
      case ConnectorEvent::Kind::kGivenUp:  // none is dialed here
      case ConnectorEvent::Kind::kTimeout:
        break;
    }
    return not_come();
  }

  /// Names the missing ranks, and those among them that were here with another secret.
  [[nodiscard]] Status not_come() const {
    std::string text =
        fmt::format("{} of {} ranks did not come in time: rank{} {}", missing_.size(),
                    args_.party->size, missing_.size() == 1 ? "" : "s", fmt::join(missing_, ", "));
    std::set<int> unproven = args_.connector->unproven();
    std::erase_if(unproven, [this](int rank) { return !missing_.contains(rank); });
    if (!unproven.empty()) {
      text += fmt::format(
          "; rank{} {} came with another secret: RONDE_SECRET_FILE must hold the same one on all "
          "hosts",
          unproven.size() == 1 ? "" : "s", fmt::join(unproven, ", "));
    }
    return Status(unproven.empty() ? Code::kTimeout : Code::kInvalidArgument, text)
        .about({*missing_.begin(), {}, 0});
  }

  Status seat(ConnectorEvent event) {
    RONDE_RETURN_IF_ERROR(welcome(event.rank, event.peer));
    Stream& guest = guests_[event.rank] = std::move(event.stream);
    ++messages_;
    args_.connector->watch(event.rank, guest.fd());
    if (!passes_fd()) {
      missing_.erase(event.rank);
      return {};
    }
    return send_descriptor(guest.fd(), args_.passed_fd, now() + kHandshakeLimit);
  }

  /// Enters a rank in the roster.
  Status welcome(int rank, const Introduction& who) {
    const auto [it, fresh] = come_.try_emplace(rank, who);
    if (!fresh) return came_twice(rank, it->second, who);
    const bool belongs = std::ranges::find(args_.guests, rank) != args_.guests.end();
    return belongs ? Status() : does_not_belong(rank, who);
  }

  /// A guest has sent something, or is gone.
  Status on_readable(int rank) { return passes_fd() ? on_acknowledged(rank) : on_report(rank); }

  Status on_acknowledged(int rank) {
    std::array<std::byte, 1> byte{};
    if (!missing_.contains(rank) || !recv_all(guests_.at(rank), byte, now()).ok()) {
      return went_away(rank, come_.at(rank));
    }
    missing_.erase(rank);
    return {};
  }

  Status on_report(int rank) {
    Stream& guest = guests_.at(rank);
    do {
      const auto bytes =
          recv_message(guest, most_verdict_bytes(args_.party->size), now() + kMessageLimit);
      if (!bytes.ok()) return went_away(rank, come_.at(rank));
      ++messages_;
      RONDE_ASSIGN_OR_RETURN(const Roster further, decode_verdict(*bytes));
      for (const auto& [other, who] : further) {
        RONDE_RETURN_IF_ERROR(welcome(other, who));
        missing_.erase(other);
      }
    } while (guest.has_unread());
    return {};
  }

  [[nodiscard]] bool passes_fd() const noexcept { return args_.passed_fd >= 0; }

  const HostArgs& args_;
  std::set<int> missing_;
  std::map<int, Stream> guests_;
  Roster come_;
  int messages_ = 0;
};

struct SecretGreeting {
  bool hands_over = false;
  std::array<std::byte, Secret::kBytes> secret{};

  static void fields(auto& wire, auto& self) { wire(self.hands_over, self.secret); }
};

/// Runs one handshake, blocking.
Status shake_hands(Stream& stream, Handshake& handshake, const WaitLimit& limit) {
  RONDE_RETURN_IF_ERROR(handshake.start());
  std::vector<std::byte> input;
  while (true) {
    RONDE_RETURN_IF_ERROR(send_all(stream, as_bytes(handshake.take_output()), limit));
    if (handshake.wants() == 0) return {};
    input.resize(handshake.wants());
    RONDE_RETURN_IF_ERROR(recv_all(stream, input, limit));
    RONDE_RETURN_IF_ERROR(handshake.consume(input));
  }
}

/// Reads the greeting and settles on the secret.
Status read_greeting(Stream& stream, std::optional<Secret>& secret, const WaitLimit& limit) {
  if (!is_same_user(stream.fd()))
    return {Code::kUnavailable, "another user's process answers there"};
  std::array<std::byte, kGreetingBytes> greeting{};
  RONDE_RETURN_IF_ERROR(recv_all(stream, greeting, limit));
  if (secret) return {};
  RONDE_ASSIGN_OR_RETURN(const auto read, decode_wire<SecretGreeting>(greeting, "greeting"));
  if (!read.hands_over) {
    return {Code::kInvalidArgument,
            "the other ranks have a secret but this one has none: set RONDE_SECRET_FILE (or "
            "RONDE_SECRET_FD) alike on all ranks"};
  }
  secret = Secret(read.secret);
  return {};
}

/// Asks rank 0 for the secret. `explained`: rank 0 has answered, and the error tells what is wrong
/// here.
Result<Secret> ask_for_secret(Stream& stream, const GuestArgs& args, const WaitLimit& limit,
                              bool& explained) {
  RONDE_ASSIGN_OR_RETURN(const std::string credential, receive_greeting(stream, limit));
  explained = true;
  return get_secret(credential, *args.handover);
}

Result<HostConnection> try_to_reach(const GuestArgs& args, const Endpoint& endpoint,
                                    bool& explained) {
  auto socket = start_connect(endpoint);
  if (!socket.ok()) return socket.status();
  const WaitLimit limit = args.limit.within(kHandshakeLimit);
  if (!wait_for(socket->get(), POLLOUT, limit)) return Status(Code::kTimeout, "no answer");
  RONDE_RETURN_IF_ERROR(connect_result(socket->get()));
  Stream stream(std::move(*socket));
  std::optional<Secret> secret = args.secret;
  if (args.greeted) RONDE_RETURN_IF_ERROR(read_greeting(stream, secret, limit));
  if (!secret) {
    RONDE_ASSIGN_OR_RETURN(secret, ask_for_secret(stream, args, limit, explained));
  }
  RONDE_ASSIGN_OR_RETURN(args.party->keys, Keys::derive(*secret));
  Handshake handshake(*args.party, Handshake::Role::kDialer, args.host_rank);
  RONDE_RETURN_IF_ERROR(shake_hands(stream, handshake, limit));
  stream.seal(handshake.take_sealed());
  return HostConnection{std::move(stream), handshake.peer_rank(), handshake.peer(), *secret};
}

/// The last failure at an endpoint. One that rank 0's answer explains outlives others: when rank 0
/// has given up, its endpoints only refuse.
struct Failure {
  std::string text;
  bool explained = false;
};

/// "10.0.0.1:4000, 10.0.0.1:4001: reason; ...", by reason.
std::string describe_failures(const std::vector<Endpoint>& endpoints,
                              const std::vector<Failure>& failures) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    if (!failures[i].text.empty()) by_reason[failures[i].text].push_back(endpoints[i].text());
  }
  std::vector<std::string> parts;
  parts.reserve(by_reason.size());
  for (const auto& [reason, where] : by_reason) {
    parts.push_back(fmt::format("{}: {}", fmt::join(where, ", "), reason));
  }
  return parts.empty() ? "no address" : fmt::format("{}", fmt::join(parts, "; "));
}

bool hopeless(Code code) { return disagrees(code) || code == Code::kInvalidArgument; }

}  // namespace

std::string describe(int rank, const Introduction& who) {
  return fmt::format("rank {} (pid {} on {})", rank, who.pid, who.host_name);
}

Status went_away(int rank, const Introduction& who, std::string_view why) {
  return Status(Code::kRankFailure, fmt::format("{} went away during the rendezvous{}{}",
                                                describe(rank, who), why.empty() ? "" : ": ", why))
      .about({rank, who.host_name, who.pid});
}

Status came_twice(int rank, const Introduction& first, const Introduction& second) {
  return {Code::kInvalidArgument,
          fmt::format("two processes say they are rank {}: pid {} on {} and pid {} on {}", rank,
                      first.pid, first.host_name, second.pid, second.host_name)};
}

Status does_not_belong(int rank, const Introduction& who) {
  return {Code::kInvalidArgument, fmt::format("{} does not belong here", describe(rank, who))};
}

std::string make_greeting(const std::optional<Secret>& handed_over) {
  SecretGreeting greeting{.hands_over = handed_over.has_value(), .secret = {}};
  if (handed_over) std::ranges::copy(handed_over->bytes(), greeting.secret.begin());
  return encode_wire<std::string>(greeting);
}

HostMeeting host_rendezvous(const HostArgs& args) {
  Assembly assembly(args);
  const Status status = assembly.gather();
  Result<Roster> verdict = status.ok() ? Result<Roster>(assembly.roster()) : status;
  assembly.send_all_guests(encode_verdict(verdict));
  if (!status.ok()) assembly.linger();
  return {std::move(verdict), assembly.connections(), assembly.messages()};
}

void report_to_host(Stream& stream, const Result<Roster>& report) {
  const Status sent = send_message(stream, encode_verdict(report), now() + kMessageLimit);
  if (!sent.ok()) log(LogLevel::kDebug, "control channel: {}", sent.message());
}

Result<HostConnection> reach_host(const GuestArgs& args) {
  Duration pause = kFirstRetry;
  std::vector<Failure> failures(args.endpoints.size());
  for (std::size_t attempt = 0;; ++attempt) {
    const std::size_t turn = attempt % args.endpoints.size();
    const Endpoint& endpoint = args.endpoints[turn];
    bool explained = false;
    auto connection = try_to_reach(args, endpoint, explained);
    if (connection.ok() || hopeless(connection.status().code())) return connection;
    if (explained || !failures[turn].explained) {
      failures[turn] = {connection.status().message(), explained};
    }
    if (now() + pause >= args.limit.deadline() || args.limit.passed()) break;
    if (turn + 1 < args.endpoints.size()) continue;
    if (args.pause) {
      args.pause(pause);
    } else {
      args.limit.sleep(pause);
    }
    pause = std::min<Duration>(2 * pause, args.greeted ? kLongestLocalRetry : kLongestRetry);
  }
  return Status(Code::kTimeout,
                fmt::format("rank {} could not reach rank {} at {}", args.party->rank,
                            args.host_rank, describe_failures(args.endpoints, failures)))
      .about({args.host_rank, {}, 0});
}

Result<HostConnection> try_to_reach(const GuestArgs& args) {
  bool explained = false;
  return try_to_reach(args, args.endpoints.front(), explained);
}

void acknowledge(Stream& stream) {
  const Status sent = send_all(stream, as_bytes("A"), now() + kMessageLimit);
  if (!sent.ok()) log(LogLevel::kDebug, "control channel: {}", sent.message());
}

Status host_is_gone(const HostConnection& connection, std::string_view why) {
  return went_away(connection.rank, connection.host, why);
}

Result<Roster> await_verdict(HostConnection& connection, int job_ranks, const WaitLimit& limit) {
  auto bytes = recv_message(connection.stream, most_verdict_bytes(job_ranks), limit);
  if (bytes.ok()) return decode_verdict(*bytes);
  return host_is_gone(connection, bytes.status().message());
}

void drain(Stream& stream, const WaitLimit& limit) {
  std::array<std::byte, 4096> unread{};
  const iovec piece{unread.data(), unread.size()};
  while (wait_for(stream.fd(), POLLIN, limit)) {
    if (!stream.receive({&piece, 1}).ok()) return;
  }
}

}  // namespace ronde::net
