// The messages and the roster of a rendezvous. All ranks learn the same roster, or the same error.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/net/connection/handshake.h"
#include "backends/net/connection/secret.h"
#include "core/base/status.h"

namespace ronde::net {

/// The ranks that have met.
using Roster = std::map<int, Introduction>;

/// The facts that the ranks of a host share.
struct HostFacts {
  std::string version;
  std::string host_name;
  std::string host_identity;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the default's own comparison.
  auto operator<=>(const HostFacts&) const = default;
  static void fields(auto& wire, auto& self) {
    wire(self.version, self.host_name, self.host_identity);
  }
};

/// A roster as it travels: the facts of a host go once, and introductions lack them.
using PackedRoster = std::map<HostFacts, Roster>;
PackedRoster pack(const Roster& roster);
Roster unpack(const PackedRoster& packed);

/// The end of a rendezvous, for all ranks: the roster, or the error that all return. `secret`: the
/// job's, for a rank that lacks it.
std::string encode_verdict(const Result<Roster>& verdict,
                           const std::optional<Secret>& secret = std::nullopt);
/// Errors: those of the verdict; kInternal where it is malformed. Sets `secret` where it comes too.
Result<Roster> decode_verdict(std::string_view bytes, std::optional<Secret>* secret = nullptr);

/// The bytes that a verdict on a job of `size` ranks has at most.
std::size_t most_verdict_bytes(int size);

/// A rank's message to the one to which it has connected. An empty one says that it knows that it
/// is connected.
struct Report {
  Status status;              ///< An error ends the rendezvous.
  std::vector<int> missing;   ///< Ranks that have not come.
  std::vector<int> unheard;   ///< Ranks that meet through those.
  std::vector<int> unproven;  ///< Ranks that came with another secret.
  PackedRoster roster;        ///< Further ranks that meet through the sender.

  static void fields(auto& wire, auto& self) {
    wire(self.status, self.missing, self.unheard, self.unproven, self.roster);
  }
};

/// The identity with the keys of a secret. Errors: as Keys::derive.
Result<std::shared_ptr<const Identity>> identity_with(Identity identity, const Secret& secret);

/// The errors of a rank that has connected: it went away; another process has the same rank; it
/// connects where it is not expected.
Status went_away(int rank, const Introduction& who, std::string_view why = {});
Status came_twice(int rank, const Introduction& first, const Introduction& second);
Status does_not_belong(int rank, const Introduction& who);

}  // namespace ronde::net
