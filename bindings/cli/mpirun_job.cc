#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/mpirun.h"
#include "bindings/cli/launch/this_host.h"

namespace ronde {
namespace {

/// The names of these variables, each once.
std::vector<std::string> names_of(const EnvironmentList& list) {
  std::set<std::string> names;
  for (const std::string& entry : list) names.insert(entry.substr(0, entry.find('=')));
  return {names.begin(), names.end()};
}

Status check_mpi_args(const RunRequest& request) {
  if (request.mpi_args.empty() || request.backend == "mpi") return {};
  return {
      Code::kInvalidArgument,
      fmt::format("--mpi-args \"{}\" is for mpirun: give --backend mpi, too", request.mpi_args)};
}

}  // namespace

Status start_through_mpirun(const RunRequest& request, LaunchOptions& options) {
  RONDE_RETURN_IF_ERROR(check_mpi_args(request));
  if (request.backend != "mpi") return {};
  const auto kind = installed_mpirun();
  if (!kind.ok()) return kind.status().with_context("--backend mpi");
  options.mpirun_kind = *kind;
  MpirunSpec spec{.hosts = options.hosts,
                  .command = options.command,
                  .ssh = options.ssh,
                  .network_interface = options.network_interface,
                  .kind = options.mpirun_kind,
                  .arguments = CLI::detail::split_up(request.mpi_args)};
  if (options.hosts.size() > 1) {
    EnvironmentList variables = forwarded_environment();
    variables.insert(variables.end(), options.environment.begin(), options.environment.end());
    variables.insert(variables.end(), {"MASTER_ADDR", "MASTER_PORT"});
    spec.variables = names_of(variables);
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    const cpu_set_t cpus = allowed_cpus();          // the agent sees one process, not its ranks
    const int threads = omp_threads(CPU_COUNT(&cpus), options.hosts.front().ranks);
    options.environment.insert(options.environment.begin(),
                               fmt::format("OMP_NUM_THREADS={}", threads));
  }
  RONDE_ASSIGN_OR_RETURN(options.command, mpirun_command(spec));
  RONDE_ASSIGN_OR_RETURN(const EnvironmentList list, mpirun_environment(spec));
  options.environment.insert(options.environment.end(), list.begin(), list.end());
  options.hosts = {{"", 0, 1}};
  options.through_mpirun = true;
  return {};
}

}  // namespace ronde
