// The only file that knows what was built: RONDE_HAVE_* and RONDE_WHY_* come from CMake.
#include "backends/builtin.h"

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

constexpr Module kModules[] = {
    {"gloo", RONDE_HAVE_GLOO, RONDE_WHY_GLOO},
    {"mpi", RONDE_HAVE_MPI, RONDE_WHY_MPI},
};

void add_module(Registry& registry, const Module& module, const ModuleOptions& options) {
  const std::string name = module.name;
  if (module.built) {
    registry.add(make_module_backend({name, "libronde_" + name + ".so", options}),
                 Choice::kOnRequest);
  } else {
    registry.add_missing(name, std::string("not built: ") + module.why);
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

}  // namespace ronde
