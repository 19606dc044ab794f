// Loads backends that live in shared objects of their own, when they are first asked about.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/ports/backend.h"
#include "core/ports/backend_module.h"
#include "core/ports/device_ops.h"

namespace ronde {

/// The file of a module and the arguments of its backend.
struct ModuleSpec {
  std::string name;  ///< The backend's name.
  std::string file;  ///< Such as "libronde_mpi.so"; a path with a slash is taken as it is.
  ModuleOptions options;
  DeviceKind memory = DeviceKind::kCpu;  ///< As Backend::memory().
  std::string library = {};  ///< Path of a library to load before the module; empty: none.
  std::string remedy = {};   ///< To install what the module needs; errors end with it.
};

/// Folder of the program or library that contains this code, where modules lie; empty if unknown.
std::string module_folder();

/// Loads the module and makes its backend. Looks beside the program or library that this code is
/// in, in ../lib of it, and then where the dynamic linker looks. It is never unloaded.
/// Blocks: while the library initialises. Threads: any.
/// Errors: kUnavailable with the linker's message; kVersionMismatch for a module of another build.
Result<std::unique_ptr<Backend>> load_module(const ModuleSpec& spec);

/// Loads the module of an accelerator and makes it. As load_module.
Result<std::shared_ptr<Accelerator>> load_accelerator_module(const std::string& file);

/// A proxy of the module's backend. It loads the module at the first viable() or open(). viable()
/// returns why loading failed. `choose` sets the file and the library just before; may be null.
std::unique_ptr<Backend> make_module_backend(ModuleSpec spec,
                                             void (*choose)(ModuleSpec& spec) = nullptr);

}  // namespace ronde
