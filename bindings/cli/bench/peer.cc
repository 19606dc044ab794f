// Other libraries in their best form: called as their own programs would call them.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

/// Reads to the end, and returns the last line that is not empty.
std::string last_line(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '-')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Why mpirun cannot start a program here; ok where it can.
Status try_mpirun() {
  RONDE_ASSIGN_OR_RETURN(const MpirunKind kind, installed_mpirun());
  RONDE_ASSIGN_OR_RETURN(Pipe output, make_pipe());
  ChildSpec spec;
  spec.command = plain_mpirun(kind);
  spec.command.insert(spec.command.end(), {"-np", "1", "true"});
  spec.death_signal = SIGKILL;
  spec.output = spec.error = output.write.get();
  const StartedChild child = start_child(spec);
  output.write.reset();
  if (child.pid < 0) return {Code::kUnavailable, child.failure.text};
  const std::string said = last_line(output.read.get());
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (status == 0) return {};
  return {Code::kUnavailable, fmt::format("mpirun {}: {}", describe_wait_status(status), said)};
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
