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

PackedRoster::PackedRoster(const Roster& roster) {
  std::map<HostFacts, std::uint32_t> known;
  ranks_.reserve(roster.size());
  for (const auto& [rank, who] : roster) {
    Entry entry{rank, 0, who};
    HostFacts facts{std::exchange(entry.who.version, {}), std::exchange(entry.who.host_name, {}),
                    std::exchange(entry.who.host_identity, {})};
    const auto [host, fresh] = known.try_emplace(facts, known.size());
    if (fresh) hosts_.push_back(std::move(facts));
    entry.host = host->second;
    ranks_.push_back(std::move(entry));
  }
}

Result<Roster> PackedRoster::unpack() const {
  Roster roster;
  for (const Entry& entry : ranks_) {
    if (entry.host >= hosts_.size()) {
      return Status(Code::kInvalidArgument, "a roster with a rank on no host");
    }
    const HostFacts& facts = hosts_[entry.host];
    Introduction& who = roster[entry.rank] = entry.who;
    who.version = facts.version;
    who.host_name = facts.host_name;
    who.host_identity = facts.host_identity;
  }
  return roster;
}

std::string encode_verdict(const Result<Roster>& verdict, const std::optional<Secret>& secret) {
  if (!verdict.ok()) return encode_wire<std::string>(Verdict{verdict.status(), {}, {}});
  return encode_wire<std::string>(
      Verdict{{}, PackedRoster(*verdict), std::string(secret ? as_text(secret->bytes()) : "")});
}

Result<Roster> decode_verdict(std::string_view bytes, std::optional<Secret>* secret) {
  const auto verdict = decode_wire<Verdict>(as_bytes(bytes), "verdict");
  if (!verdict.ok()) return Status(Code::kInternal, verdict.status().message());
  RONDE_RETURN_IF_ERROR(verdict->status);
  if (secret != nullptr && verdict->secret.size() == Secret::kBytes) {
    *secret = Secret(as_bytes(verdict->secret).first<Secret::kBytes>());
  }
  auto roster = verdict->roster.unpack();
  if (!roster.ok()) return Status(Code::kInternal, roster.status().message());
  return roster;
}

std::size_t most_verdict_bytes(int size) {
  return (std::size_t{64} << 10) + static_cast<std::size_t>(size) * kMaxIntroductionBytes;
}

Result<std::shared_ptr<const Party>> party_with(Party party, const Secret& secret) {
  RONDE_ASSIGN_OR_RETURN(party.keys, Keys::derive(secret));
  return std::make_shared<const Party>(std::move(party));
}

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

}  // namespace ronde::net
