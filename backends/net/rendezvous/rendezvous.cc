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

constexpr std::chrono::seconds kVerdictLimit{2};  // for a guest to receive the verdict
constexpr std::chrono::microseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLongestRetry{20};
constexpr std::chrono::milliseconds kLongestLocalRetry{2};  // no rank listens yet: a cheap call

/// The guests that are connected, as the host sees them.
class Assembly {
 public:
  explicit Assembly(const HostArgs& args)
      : args_(args), missing_(args.guests.begin(), args.guests.end()) {}

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
    const TimePoint deadline = now() + kVerdictLimit;
    for (auto& [rank, guest] : guests_) {
      (void)send_message(guest.stream, verdict, deadline).ok();
    }
  }

  [[nodiscard]] Roster roster() const {
    Roster roster;
    roster[args_.party->rank] = args_.party->self;
    for (const auto& [rank, guest] : guests_) roster[rank] = guest.who;
    return roster;
  }

 private:
  struct Guest {
    Stream stream;
    Introduction who;
  };

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
    return Status(Code::kTimeout,
                  fmt::format("{} of {} ranks did not come in time: rank{} {}", missing_.size(),
                              args_.party->size, missing_.size() == 1 ? "" : "s",
                              fmt::join(missing_, ", ")))
        .about({*missing_.begin(), {}, 0});
  }

  Status seat(ConnectorEvent event) {
    const auto [it, fresh] =
        guests_.try_emplace(event.rank, Guest{std::move(event.stream), event.peer});
    if (!fresh) return came_twice(event.rank, it->second.who, event.peer);
    if (std::find(args_.guests.begin(), args_.guests.end(), event.rank) == args_.guests.end()) {
      return does_not_belong(event.rank, event.peer);
    }
    args_.connector->watch(event.rank, it->second.stream.fd());
    if (args_.passed_fd < 0) {
      missing_.erase(event.rank);
      return {};
    }
    return send_descriptor(it->second.stream.fd(), args_.passed_fd, now() + kHandshakeLimit);
  }

  /// A guest has acknowledged, or is gone.
  Status on_readable(int rank) {
    Guest& guest = guests_.at(rank);
    std::array<std::byte, 1> byte{};
    if (args_.passed_fd >= 0 && missing_.contains(rank) &&
        recv_all(guest.stream, byte, now()).ok()) {
      missing_.erase(rank);
      return {};
    }
    return went_away(rank, guest.who);
  }

  const HostArgs& args_;
  std::set<int> missing_;
  std::map<int, Guest> guests_;
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
  return HostConnection{std::move(stream), handshake.peer(), *secret};
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

Result<Roster> host_rendezvous(const HostArgs& args) {
  Assembly assembly(args);
  const Status status = assembly.gather();
  Result<Roster> verdict = status.ok() ? Result<Roster>(assembly.roster()) : status;
  assembly.send_all_guests(encode_verdict(verdict));
  return verdict;
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
    args.limit.sleep(pause);
    pause = std::min<Duration>(2 * pause, args.greeted ? kLongestLocalRetry : kLongestRetry);
  }
  return Status(Code::kTimeout,
                fmt::format("rank {} could not reach rank {} at {}", args.party->rank,
                            args.host_rank, describe_failures(args.endpoints, failures)))
      .about({args.host_rank, {}, 0});
}

void acknowledge(Stream& stream) {
  const Status sent = send_all(stream, as_bytes("A"), now() + kVerdictLimit);
  if (!sent.ok()) log(LogLevel::kDebug, "control channel: {}", sent.message());
}

Status host_is_gone(const HostConnection& connection, const GuestArgs& args, std::string_view why) {
  return went_away(args.host_rank, connection.host, why);
}

Result<Roster> await_verdict(HostConnection& connection, const GuestArgs& args,
                             const WaitLimit& limit) {
  auto bytes = recv_message(connection.stream, most_verdict_bytes(args.party->size), limit);
  if (bytes.ok()) return decode_verdict(*bytes);
  return host_is_gone(connection, args, bytes.status().message());
}

}  // namespace ronde::net
