// The only file that knows what was built: RONDE_HAVE_* and RONDE_WHY_* come from CMake.
#include "backends/builtin.h"

#include <fmt/format.h>

#include <utility>

#include "backends/module_loader.h"
#include "backends/shm/factory.h"

namespace ronde {
namespace {

struct Module {
  const char* name;
  bool built;
  const char* why;  // why it was not built
};

struct BackendModule {
  Module module;
  Choice choice;
  DeviceKind memory;
};

constexpr Module kCuda{"cuda", RONDE_HAVE_CUDA, RONDE_WHY_CUDA};
constexpr BackendModule kModules[] = {
    {{"gloo", RONDE_HAVE_GLOO, RONDE_WHY_GLOO}, Choice::kOnRequest, DeviceKind::kCpu},
    {{"mpi", RONDE_HAVE_MPI, RONDE_WHY_MPI}, Choice::kOnRequest, DeviceKind::kCpu},
    {{"nccl", RONDE_HAVE_NCCL, RONDE_WHY_NCCL}, Choice::kAutomatic, DeviceKind::kCuda},
};

std::string file_of(const Module& module) { return fmt::format("libronde_{}.so", module.name); }

Status built(const Module& module) {
  if (module.built) return {};
  return {Code::kUnavailable, fmt::format("not built: {}", module.why)};
}

void add_module(Registry& registry, const BackendModule& backend, const ModuleOptions& options) {
  const std::string name = backend.module.name;
  if (backend.module.built) {
    registry.add(make_module_backend({name, file_of(backend.module), options, backend.memory}),
                 backend.choice);
  } else {
    registry.add_missing(name, built(backend.module).message(), backend.memory);
  }
}

ShmOptions shm_options(const Config& config) {
  if (config.single_copy == "always") return {.single_copy = SingleCopy::kAlways};
  if (config.single_copy == "never") return {.single_copy = SingleCopy::kNever};
  return {};
}

}  // namespace

void register_builtin_backends(Registry& registry, BackendDeps deps) {
  registry.add(create_shm_backend(deps.kernels, shm_options(deps.config)), Choice::kAutomatic);
  if (deps.tcp) registry.add(std::move(deps.tcp), Choice::kAutomatic);
  const ModuleOptions options{.network_interface = deps.config.network_interface,
                              .kernels = deps.kernels,
                              .unprotected = deps.unprotected};
  for (const BackendModule& backend : kModules) add_module(registry, backend, options);
}

Result<std::shared_ptr<Accelerator>> load_builtin_accelerator() {
  RONDE_RETURN_IF_ERROR(built(kCuda));
  return load_accelerator_module(file_of(kCuda));
}

}  // namespace ronde
