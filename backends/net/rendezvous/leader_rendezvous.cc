#include "backends/net/rendezvous/leader_rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/connector.h"
#include "backends/net/rendezvous/unix_rendezvous.h"
#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kFailureLimit{3};  // for rank 0 to answer a report of an error
constexpr std::chrono::seconds kSlack{5};         // for the leader to pass the verdict on
constexpr std::chrono::milliseconds kLeaderRefusals{300};  // a leader begins to listen, or ends
constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::milliseconds kTogether{1};  // between ranks that are reported together
constexpr int kMostSilences = 3;                   // of a leader: it may be busy reaching rank 0

/// The leader's message to a rank that has come to it.
struct Outcome {
  std::string secret;  ///< Of the job; empty where the ranks have it from their launcher.
  std::string verdict;

  static void fields(auto& wire, auto& self) { wire(self.secret, self.verdict); }
};

/// The keys of connections between the ranks of a host. Without a secret the leader makes one: that
/// of the job comes with the verdict.
struct LocalKeys {
  Keys keys;
  std::string greeting;
};

Result<LocalKeys> local_keys(const std::optional<Secret>& given) {
  std::optional<Secret> made;
  if (!given) {
    RONDE_ASSIGN_OR_RETURN(made, Secret::random());
  }
  RONDE_ASSIGN_OR_RETURN(Keys keys, Keys::derive(given ? *given : *made));
  return LocalKeys{std::move(keys), make_greeting(made)};
}

Party with_keys(Party party, Keys keys) {
  party.keys = std::move(keys);
  return party;
}

/// The leader's part of the rendezvous.
class HostLeader {
 public:
  HostLeader(const LeaderRendezvousArgs& args, LocalKeys local, FileDescriptor listener)
      : args_(args),
        party_(with_keys(*args.guest.party, std::move(local.keys))),
        connector_(party_, std::move(local.greeting)) {
    connector_.listen(std::move(listener));
  }

  Result<LeaderMeeting> run() {
    const Result<Roster> verdict = reach_rank_0() ? get_verdict() : Result<Roster>(failure_);
    if (!args_.guest.limit.cancelled()) pass_on(verdict);
    if (!verdict.ok()) return verdict.status();
    return LeaderMeeting{*verdict, up_->secret};
  }

 private:
  struct Member {
    Stream stream;
    Introduction who;
  };

  /// Meanwhile ranks of this host come.
  bool reach_rank_0() {
    GuestArgs guest = args_.guest;
    guest.pause = [this](Duration pause) {
      const WaitLimit limit = args_.guest.limit.within(pause);
      while (serve(limit) != Served::kNothing) continue;
    };
    auto connection = reach_host(guest);
    if (!connection.ok()) {
      note(args_.advise(connection.status()));
      return false;
    }
    up_.emplace(std::move(*connection));
    connector_.watch(up_->rank, up_->stream.fd());
    return true;
  }

  /// The cause for which serve() has returned.
  enum class Served : std::uint8_t { kMember, kRank0, kNothing };

  /// Waits for one event: of a rank of this host, or that rank 0 has sent something, or is gone.
  Served serve(const WaitLimit& limit) {
    auto event = connector_.next(limit);
    if (!event.ok()) {
      note(event.status());
      return Served::kMember;
    }
    if (event->kind == ConnectorEvent::Kind::kTimeout) return Served::kNothing;
    if (event->kind == ConnectorEvent::Kind::kAdmitted) {
      on_member(std::move(*event));
      return Served::kMember;
    }
    if (up_ && event->rank == up_->rank) return Served::kRank0;
    on_member_gone(event->rank);
    return Served::kMember;
  }

  void on_member(ConnectorEvent event) {
    if (event.rank == args_.guest.host_rank) return note(does_not_belong(event.rank, event.peer));
    const auto [it, fresh] =
        members_.try_emplace(event.rank, Member{std::move(event.stream), event.peer});
    if (!fresh) return note(came_twice(event.rank, it->second.who, event.peer));
    unreported_[event.rank] = event.peer;
    connector_.watch(event.rank, it->second.stream.fd());
  }

  /// Rank 0 has not heard of one that has not been reported. Another process may come in its place.
  void on_member_gone(int rank) {
    connector_.unwatch(rank);
    const auto gone = members_.extract(rank);
    if (gone && unreported_.erase(rank) == 0) note(went_away(rank, gone.mapped().who));
  }

  /// The first error counts.
  void note(const Status& failure) {
    if (failure_.ok()) failure_ = failure;
  }

  Result<Roster> get_verdict() {
    const WaitLimit limit = args_.guest.limit.until(now() + args_.verdict_limit);
    while (failure_.ok()) {
      const bool all_reported = unreported_.empty();
      const Served served = serve(all_reported ? limit : limit.within(kTogether));
      if (served == Served::kMember) continue;
      if (served == Served::kRank0 || all_reported) return await_verdict(limit);
      report_to_host(up_->stream, std::exchange(unreported_, {}));
    }
    return get_verdict_on_failure();
  }

  Result<Roster> get_verdict_on_failure() {
    report_to_host(up_->stream, failure_);
    const auto verdict = await_verdict(args_.guest.limit.until(now() + kFailureLimit));
    return verdict.ok() ? Result<Roster>(failure_) : verdict.status();
  }

  Result<Roster> await_verdict(const WaitLimit& limit) {
    return net::await_verdict(*up_, party_.size, limit);
  }

  /// Best effort: a rank that does not receive it finds the connection closed.
  void pass_on(const Result<Roster>& verdict) {
    const bool hands_over = up_ && !args_.guest.secret;
    const Outcome outcome{
        .secret = hands_over ? std::string(as_text(up_->secret.bytes())) : std::string(),
        .verdict = encode_verdict(verdict)};
    const auto message = encode_wire<std::string>(outcome);
    const TimePoint deadline = now() + kMessageLimit;
    for (auto& [rank, member] : members_) {
      (void)send_message(member.stream, message, deadline).ok();
    }
  }

  const LeaderRendezvousArgs& args_;
  const Party party_;  ///< Towards ranks of this host.
  Connector connector_;
  std::map<int, Member> members_;
  Roster unreported_;
  Status failure_;
  std::optional<HostConnection> up_;
};

/// Decides how long a rank tries to reach the leader of its host.
class Patience {
 public:
  /// False once it is at its end.
  bool try_again(const Status& failure) {
    if (failure.code() == Code::kTimeout) return ++silences_ < kMostSilences;
    return now() < refusals_end_;
  }

 private:
  int silences_ = 0;
  const TimePoint refusals_end_ = now() + kLeaderRefusals;
};

Result<LeaderMeeting> follow(HostConnection leader, const LeaderRendezvousArgs& args) {
  const GuestArgs& guest = args.guest;
  const WaitLimit limit = guest.limit.until(guest.limit.deadline() + args.verdict_limit + kSlack);
  const auto bytes =
      recv_message(leader.stream, most_verdict_bytes(guest.party->size) + kGreetingBytes, limit);
  if (!bytes.ok()) return host_is_gone(leader, bytes.status().message());
  RONDE_ASSIGN_OR_RETURN(const auto outcome, decode_wire<Outcome>(as_bytes(*bytes), "outcome"));
  LeaderMeeting met;
  RONDE_ASSIGN_OR_RETURN(met.roster, decode_verdict(outcome.verdict));
  met.secret = leader.secret;
  if (!guest.secret) {
    if (outcome.secret.size() != Secret::kBytes) return Status(Code::kInternal, "no secret came");
    met.secret = Secret(as_bytes(outcome.secret).first<Secret::kBytes>());
  }
  RONDE_ASSIGN_OR_RETURN(guest.party->keys, Keys::derive(met.secret));
  return met;
}

Result<LeaderMeeting> lead(const LeaderRendezvousArgs& args, FileDescriptor listener) {
  RONDE_ASSIGN_OR_RETURN(LocalKeys local, local_keys(args.guest.secret));
  return HostLeader(args, std::move(local), std::move(listener)).run();
}

Result<LeaderMeeting> go_alone(const LeaderRendezvousArgs& args) {
  auto connection = reach_host(args.guest);
  if (!connection.ok()) return args.advise(connection.status());
  const WaitLimit limit = args.guest.limit.until(now() + args.verdict_limit);
  RONDE_ASSIGN_OR_RETURN(Roster roster, await_verdict(*connection, args.guest.party->size, limit));
  return LeaderMeeting{std::move(roster), connection->secret};
}

}  // namespace

Endpoint leader_endpoint(const LeaderRendezvousArgs& args) {
  const Party& party = *args.guest.party;
  return private_endpoint(fmt::format("leader\n{}\n{}\n{}\n{}\n", args.place, party.context,
                                      party.size, party.self.host_identity),
                          args.guest.secret);
}

Result<LeaderMeeting> meet_through_leader(const LeaderRendezvousArgs& args) {
  Party party = *args.guest.party;
  const GuestArgs to_leader{.party = &party,
                            .host_rank = -1,
                            .endpoints = {leader_endpoint(args)},
                            .greeted = true,
                            .secret = args.guest.secret,
                            .limit = args.guest.limit};
  Patience patience;
  while (!args.guest.limit.passed()) {
    auto listener = listen_on(to_leader.endpoints.front());
    if (listener.ok()) return lead(args, std::move(*listener));
    auto leader = try_to_reach(to_leader);
    if (leader.ok()) return follow(std::move(*leader), args);
    if (disagrees(leader.status().code())) return leader.status();
    if (!patience.try_again(leader.status())) break;
    args.guest.limit.sleep(kPause);
  }
  log(LogLevel::kDebug, "control channel: rank {} has no leader on its host", party.rank);
  return go_alone(args);
}

}  // namespace ronde::net
