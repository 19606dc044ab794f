// Other libraries in their best form: called as their own programs would call them.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "backends/builtin.h"
#include "bindings/cli/bench/contender.h"
#include "ops/kernels/factory.h"

namespace ronde::bench {
namespace {

GroupSpec whole_team(Team& team, std::shared_ptr<AbortToken> abort) {
  GroupSpec group;
  group.key = 0x62656e6368;  // "bench"
  group.ranks.resize(static_cast<std::size_t>(team.size()));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.rank = team.rank();
  group.topology = &team.runtime().topology();
  group.abort = std::move(abort);
  return group;
}

}  // namespace

Peer::Peer(std::string name) : name_(std::move(name)) {}

Peer::~Peer() = default;

Result<std::unique_ptr<Peer>> Peer::open(const std::string& name, Team& team,
                                         const Config& config) {
  std::unique_ptr<Peer> peer(new Peer(name));
  register_builtin_backends(
      peer->registry_,
      {.config = config, .kernels = create_kernels(), .tcp = nullptr, .unprotected = true});
  RONDE_ASSIGN_OR_RETURN(const auto candidates, peer->registry_.candidates(name));
  Backend& backend = *candidates.front();
  const GroupSpec spec = whole_team(team, peer->abort_);
  const Status viable = backend.viable(spec);
  RONDE_RETURN_IF_ERROR(team.all(viable.ok(), fmt::format("peer {}: {}", name, viable.message())));
  TeamExchange exchange(team);
  RONDE_ASSIGN_OR_RETURN(peer->group_, backend.open(spec, exchange));
  return peer;
}

bool Peer::supports(const TrialSpec& spec) const noexcept {
  return group_->traits().supports.has(spec.kind, spec.dtype, spec.op);
}

Contender Peer::contender(Trials& trials) {
  return {name_,
          [this, &trials] {
            for (const auto& trial : trials) {
              RONDE_RETURN_IF_ERROR(group_->run(trial->work(), kNoStream, *abort_));
            }
            return Status();
          },
          [] { return std::string("native"); }};
}

}  // namespace ronde::bench
