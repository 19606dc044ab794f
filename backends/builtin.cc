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

constexpr Module kCuda{"cuda", RONDE_HAVE_CUDA, RONDE_WHY_CUDA};
constexpr Module kNccl{"nccl", RONDE_HAVE_NCCL, RONDE_WHY_NCCL};
constexpr Module kModules[] = {
    {"gloo", RONDE_HAVE_GLOO, RONDE_WHY_GLOO},
    {"mpi", RONDE_HAVE_MPI, RONDE_WHY_MPI},
};

std::string file_of(const Module& module) { return fmt::format("libronde_{}.so", module.name); }

Status built(const Module& module) {
  if (module.built) return {};
  return {Code::kUnavailable, fmt::format("not built: {}", module.why)};
}

void add_module(Registry& registry, const Module& module, const ModuleOptions& options) {
  const std::string name = module.name;
  if (module.built) {
    registry.add(make_module_backend({name, file_of(module), options}), Choice::kOnRequest);
  } else {
    registry.add_missing(name, built(module).message());
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
  for (const Module& module : kModules) add_module(registry, module, options);
}

Result<std::shared_ptr<Accelerator>> load_builtin_accelerator() {
  RONDE_RETURN_IF_ERROR(built(kCuda));
  return load_accelerator_module(file_of(kCuda));
}

Result<std::shared_ptr<DevicePlane>> load_builtin_device_plane() {
  RONDE_RETURN_IF_ERROR(built(kNccl));
  return load_device_plane_module(file_of(kNccl));
}

}  // namespace ronde
