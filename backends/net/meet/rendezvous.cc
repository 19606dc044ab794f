#include "backends/net/meet/rendezvous.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {

namespace {

struct Verdict {
  Status status;
  PackedRoster roster;
  std::string secret;  // empty: none

  static void fields(auto& wire, auto& self) { wire(self.status, self.roster, self.secret); }
};

}  // namespace

PackedRoster pack(const Roster& roster) {
  PackedRoster packed;
  for (auto [rank, who] : roster) {
    const HostFacts facts{std::exchange(who.version, {}), std::exchange(who.host_name, {}),
                          std::exchange(who.host_identity, {})};
    packed[facts][rank] = std::move(who);
  }
  return packed;
}

Roster unpack(const PackedRoster& packed) {
  Roster roster;
  for (const auto& [facts, ranks] : packed) {
    for (const auto& [rank, rest] : ranks) {
      Introduction& who = roster[rank] = rest;
      who.version = facts.version;
      who.host_name = facts.host_name;
      who.host_identity = facts.host_identity;
    }
  }
  return roster;
}

std::string encode_verdict(const Result<Roster>& verdict, const std::optional<Secret>& secret) {
  if (!verdict.ok()) return encode_wire<std::string>(Verdict{verdict.status(), {}, {}});
  return encode_wire<std::string>(
      Verdict{{}, pack(*verdict), std::string(secret ? as_text(secret->bytes()) : "")});
}

Result<Roster> decode_verdict(std::string_view bytes, std::optional<Secret>* secret) {
  const auto verdict = decode_wire<Verdict>(as_bytes(bytes), "verdict");
  if (!verdict.ok()) return Status(Code::kInternal, verdict.status().message());
  RONDE_RETURN_IF_ERROR(verdict->status);
  if (secret != nullptr && verdict->secret.size() == Secret::kBytes) {
    *secret = Secret(as_bytes(verdict->secret).first<Secret::kBytes>());
  }
  return unpack(verdict->roster);
}

std::size_t most_verdict_bytes(int size) {
  return (std::size_t{64} << 10) + static_cast<std::size_t>(size) * kMaxIntroductionBytes;
}

Result<std::shared_ptr<const Identity>> identity_with(Identity identity, const Secret& secret) {
  RONDE_ASSIGN_OR_RETURN(identity.keys, Keys::derive(secret));
  return std::make_shared<const Identity>(std::move(identity));
}

Status went_away(int rank, const Introduction& who, std::string_view why) {
  const FailedRank gone = who.of(rank);
  return Status(Code::kRankFailure, fmt::format("{} went away during the rendezvous{}{}",
                                                name_of(gone), why.empty() ? "" : ": ", why))
      .about(gone);
}

Status came_twice(int rank, const Introduction& first, const Introduction& second) {
  return {Code::kInvalidArgument,
          fmt::format("two processes say they are rank {}: pid {} on {} and pid {} on {}", rank,
                      first.pid, first.host_name, second.pid, second.host_name)};
}

Status does_not_belong(int rank, const Introduction& who) {
  return {Code::kInvalidArgument, fmt::format("{} does not belong here", name_of(who.of(rank)))};
}

}  // namespace ronde::net
