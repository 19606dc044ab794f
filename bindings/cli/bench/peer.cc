// Other libraries in their best form: called as their own programs would call them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/builtin.h"
#include "backends/registry.h"
#include "bindings/cli/bench/contender.h"
#include "bindings/cli/bench/options.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/process.h"
#include "core/ports/backend.h"
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

/// The last line that says something.
std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '-')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Why mpirun cannot start a program here; ok where it can.
Status try_mpirun() {
  RONDE_ASSIGN_OR_RETURN(const MpirunKind kind, installed_mpirun());
  std::vector<std::string> command = plain_mpirun(kind);
  command.insert(command.end(), {"-np", "1", "true"});
  RONDE_ASSIGN_OR_RETURN(const FinishedCommand end, run_command(std::move(command), true));
  if (end.wait_status == 0) return {};
  return {Code::kUnavailable, fmt::format("mpirun {}: {}", describe_wait_status(end.wait_status),
                                          last_line(end.output))};
}

/// Why the backend of this name cannot be loaded in this process.
Status try_backend(const Registry& registry, const std::string& name) {
  RONDE_ASSIGN_OR_RETURN(const auto candidates, registry.candidates(name));
  Topology topology;
  topology.peers.resize(1);
  GroupSpec alone;
  alone.ranks = {0};
  alone.rank = 0;
  alone.topology = &topology;
  return candidates.front()->viable(alone);
}

/// An Exchange over a team. Each rank fills in its own letters, and all others' are zeros: so the
/// bench relies on one collective.
class TeamExchange final : public Exchange {
 public:
  explicit TeamExchange(Team& team) : team_(team) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override {
    const auto size = static_cast<std::size_t>(team_.size());
    const auto me = static_cast<std::size_t>(team_.rank());
    std::vector<double> lengths(size, 0);
    lengths[me] = static_cast<double>(mine.size());
    RONDE_RETURN_IF_ERROR(team_.slowest(lengths));
    const auto most = static_cast<std::size_t>(std::ranges::max(lengths));
    std::vector<double> letters(size * most, 0);
    std::ranges::transform(mine, letters.begin() + static_cast<std::ptrdiff_t>(me * most),
                           [](char letter) { return static_cast<unsigned char>(letter); });
    RONDE_RETURN_IF_ERROR(team_.slowest(letters));
    std::vector<std::string> values(size);
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(lengths[r]); ++i) {
        values[r] += static_cast<char>(static_cast<unsigned char>(letters[r * most + i]));
      }
    }
    return values;
  }

 private:
  Team& team_;
};

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

std::vector<MissingPeer> missing_peers(const std::vector<std::string>& peers,
                                       const Config& config) {
  Registry registry;
  register_builtin_backends(
      registry,
      {.config = config, .kernels = create_kernels(), .tcp = nullptr, .unprotected = true});
  std::vector<MissingPeer> missing;
  for (const std::string& peer : peers) {
    Status usable = try_backend(registry, peer);
    if (usable.ok() && peer == "mpi") usable = try_mpirun();
    if (!usable.ok()) missing.push_back({peer, usable.message()});
  }
  return missing;
}

}  // namespace ronde::bench
