// The only file that knows what was built: RONDE_HAVE_* and RONDE_WHY_* come from CMake.
#include "backends/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/module_loader.h"
#include "backends/mpi_choice.h"
#include "backends/registry.h"
#include "backends/shm/factory.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

/// A shared object of this build, or the reason why it was not built.
struct Module {
  bool built = false;
  const char* why = "";
};
constexpr Module kCuda{RONDE_HAVE_CUDA, RONDE_WHY_CUDA};

std::unique_ptr<Backend> make_shm(BackendDeps& deps) {
  ShmOptions options;
  if (deps.config.single_copy == "always") options.single_copy = SingleCopy::kAlways;
  if (deps.config.single_copy == "never") options.single_copy = SingleCopy::kNever;
  options.checksums = deps.config.checksums;
  return create_shm_backend(deps.kernels, options);
}

/// Mpirun's library and the module for its ABI.
void choose_mpi_module(ModuleSpec& spec) {
  MpiChoice choice = choose_mpi(mpi_surroundings(module_folder()));
  spec.file = std::move(choice.module);
  spec.library = std::move(choice.library);
}

std::unique_ptr<Backend> take_tcp(BackendDeps& deps) { return std::move(deps.tcp); }

/// All that registers a backend: `--backend`, settings and `ronde doctor` read the name here.
struct BackendRow {
  const char* name;
  Choice choice;
  DeviceKind memory = DeviceKind::kCpu;
  Module module = {};  ///< Where `make` is null: libronde_<name>.so makes the backend.
  std::unique_ptr<Backend> (*make)(BackendDeps&) = nullptr;
  void (*choose)(ModuleSpec&) = nullptr;  ///< Of several modules, the one for this process.
  const char* remedy = "";                ///< To install the library where the module is used.
};

/// In the order in which `auto` prefers them.
constexpr BackendRow kBackends[] = {
    {.name = "shm", .choice = Choice::kAutomatic, .make = make_shm},
    {.name = "tcp", .choice = Choice::kAutomatic, .make = take_tcp},
    {.name = "gloo",
     .choice = Choice::kOnRequest,
     .module = {RONDE_HAVE_GLOO, RONDE_WHY_GLOO},
     .remedy = "install Gloo (libgloo0 in Debian and Ubuntu)"},
    {.name = "mpi",
     .choice = Choice::kOnRequest,
     .module = {RONDE_HAVE_MPI, RONDE_WHY_MPI},
     .choose = choose_mpi_module,
     .remedy = "install Open MPI or MPICH (openmpi-bin in Debian and Ubuntu)"},
    {.name = "nccl",
     .choice = Choice::kAutomatic,
     .memory = DeviceKind::kCuda,
     .module = {RONDE_HAVE_NCCL, RONDE_WHY_NCCL}},
};

std::string file_of(std::string_view module) { return fmt::format("libronde_{}.so", module); }

Status built(const Module& module) {
  if (module.built) return {};
  return {Code::kUnavailable, fmt::format("not built: {}", module.why)};
}

void add_module(Registry& registry, const BackendRow& row, const BackendDeps& deps) {
  const Status status = built(row.module);
  if (!status.ok()) return registry.add_missing(row.name, status.message(), row.memory);
  const ModuleOptions options{
      .network_interface = listed_interfaces(deps.config.network_interface).front(),
      .kernels = deps.kernels,
      .unprotected = deps.unprotected};
  auto backend = make_module_backend({.name = row.name,
                                      .file = file_of(row.name),
                                      .options = options,
                                      .memory = row.memory,
                                      .remedy = row.remedy},
                                     row.choose);
  registry.add(guard_encryption(std::move(backend), deps.config.encryption), row.choice);
}

}  // namespace

std::string backend_names() {
  std::string names = "auto";
  for (const BackendRow& row : kBackends) names += fmt::format(", {}", row.name);
  return names;
}

Status check_backend(std::string_view name) {
  const auto is_named = [&](const BackendRow& row) { return row.name == name; };
  if (name == "auto" || std::any_of(std::begin(kBackends), std::end(kBackends), is_named)) {
    return {};
  }
  return {Code::kInvalidArgument,
          fmt::format("RONDE_BACKEND=\"{}\" is not valid; allowed: {}", name, backend_names())};
}

void register_builtin_backends(Registry& registry, BackendDeps deps) {
  for (const BackendRow& row : kBackends) {
    if (row.make == nullptr) {
      add_module(registry, row, deps);
    } else if (auto backend = row.make(deps)) {
      registry.add(std::move(backend), row.choice);
    }
  }
}

Result<std::shared_ptr<Accelerator>> load_builtin_accelerator() {
  RONDE_RETURN_IF_ERROR(built(kCuda));
  return load_accelerator_module(file_of("cuda"));
}

}  // namespace ronde
