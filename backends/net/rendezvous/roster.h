// The roster of a job, and how it travels: the facts of a host go once, not with each rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/net/rendezvous/handshake.h"
#include "core/base/status.h"

namespace ronde::net {

/// The ranks that have met.
using Roster = std::map<int, Introduction>;

/// A roster as it travels.
class PackedRoster {
 public:
  PackedRoster() = default;
  explicit PackedRoster(const Roster& roster);

  /// Errors: kInvalidArgument where a rank names a host that is not there.
  [[nodiscard]] Result<Roster> unpack() const;

  static void fields(auto& wire, auto& self) { wire(self.hosts_, self.ranks_); }

 private:
  struct HostFacts {
    std::string version;
    std::string host_name;
    std::string host_identity;

    bool operator<(const HostFacts& other) const {
      return std::tie(host_identity, host_name, version) <
             std::tie(other.host_identity, other.host_name, other.version);
    }
    static void fields(auto& wire, auto& self) {
      wire(self.version, self.host_name, self.host_identity);
    }
  };
  struct Entry {
    int rank = 0;
    std::uint32_t host = 0;  ///< Index of its facts, which `who` lacks.
    Introduction who;

    static void fields(auto& wire, auto& self) { wire(self.rank, self.host, self.who); }
  };

  std::vector<HostFacts> hosts_;
  std::vector<Entry> ranks_;
};

/// The end of a rendezvous, for all ranks: the roster, or the error that all return.
std::string encode_verdict(const Result<Roster>& verdict);
/// Errors: those of the verdict; kInternal where it is malformed.
Result<Roster> decode_verdict(std::string_view bytes);

/// The bytes that a verdict on a job of `size` ranks has at most.
std::size_t most_verdict_bytes(int size);

}  // namespace ronde::net
