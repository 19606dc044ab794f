#include "backends/net/rendezvous/roster.h"

#include <utility>

#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

struct Verdict {
  Status status;
  PackedRoster roster;

  static void fields(auto& wire, auto& self) { wire(self.status, self.roster); }
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

std::string encode_verdict(const Result<Roster>& verdict) {
  if (!verdict.ok()) return encode_wire<std::string>(Verdict{verdict.status(), {}});
  return encode_wire<std::string>(Verdict{{}, PackedRoster(*verdict)});
}

Result<Roster> decode_verdict(std::string_view bytes) {
  const auto verdict = decode_wire<Verdict>(as_bytes(bytes), "verdict");
  if (!verdict.ok()) return Status(Code::kInternal, verdict.status().message());
  RONDE_RETURN_IF_ERROR(verdict->status);
  auto roster = verdict->roster.unpack();
  if (!roster.ok()) return Status(Code::kInternal, roster.status().message());
  return roster;
}

std::size_t most_verdict_bytes(int size) {
  return (std::size_t{64} << 10) + static_cast<std::size_t>(size) * kMaxIntroductionBytes;
}

}  // namespace ronde::net
