// The exports of a backend or an accelerator in a shared object of its own. A machine without its
// library can still run everything else. Modules and loader come from one build, so C++ types may
// cross.
#pragma once

#include <memory>
#include <string>

#include "core/ports/backend.h"
#include "core/ports/device_ops.h"
#include "core/ports/reduce_kernels.h"

namespace ronde {

/// The arguments of a module's backend.
struct ModuleOptions {
  std::string network_interface;  ///< Interface name or address to use between hosts; may be empty.
  std::shared_ptr<const ReduceKernels> kernels{};
  /// Hands user memory to the library and blocks in its calls, where abort cannot reach: as a peer
  /// in measurements only.
  bool unprotected = false;
};

/// Names the build: equal in loader and module, or the module is refused.
inline constexpr const char* kModuleBuild = "ronde module 1, " __VERSION__;

/// Exported as "ronde_module_build": returns kModuleBuild.
using ModuleBuildFunction = const char*();
inline constexpr const char* kModuleBuildSymbol = "ronde_module_build";

/// Exported as "ronde_module_create": makes the backend; the caller owns it.
using ModuleCreateFunction = Backend*(const ModuleOptions& options);
inline constexpr const char* kModuleCreateSymbol = "ronde_module_create";

/// Exported as "ronde_accelerator_create": makes the accelerator; the caller owns it.
using AcceleratorCreateFunction = Accelerator*();
inline constexpr const char* kAcceleratorCreateSymbol = "ronde_accelerator_create";

}  // namespace ronde

/// Defines the mark of the build; part of the macros below.
#define RONDE_DEFINE_MODULE_BUILD_                                                    \
  extern "C" __attribute__((visibility("default"))) const char* ronde_module_build(); \
  const char* ronde_module_build() { return ::ronde::kModuleBuild; }

/// Defines what a backend's module exports; `create` is its factory.
#define RONDE_DEFINE_MODULE(create)                                                        \
  RONDE_DEFINE_MODULE_BUILD_                                                               \
  extern "C" __attribute__((visibility("default"))) ::ronde::Backend* ronde_module_create( \
      const ::ronde::ModuleOptions& options);                                              \
  ::ronde::Backend* ronde_module_create(const ::ronde::ModuleOptions& options) {           \
    return create(options).release();                                                      \
  }

/// Defines what an accelerator's module exports; `create` is its factory.
#define RONDE_DEFINE_ACCELERATOR_MODULE(create)                           \
  RONDE_DEFINE_MODULE_BUILD_                                              \
  extern "C" __attribute__((visibility("default"))) ::ronde::Accelerator* \
  ronde_accelerator_create();                                             \
  ::ronde::Accelerator* ronde_accelerator_create() { return create().release(); }
