// What an accelerator, or a device data plane, in a shared object of its own exports; see
// backend_module.h, whose build mark it shares.
#pragma once

#include "core/ports/backend_module.h"
#include "core/ports/device_ops.h"
#include "core/ports/device_plane.h"

namespace ronde {

/// Exported under these names: they make the object, and the caller owns it.
using AcceleratorCreateFunction = Accelerator*();
inline constexpr const char* kAcceleratorCreateSymbol = "ronde_accelerator_create";
using DevicePlaneCreateFunction = DevicePlane*();
inline constexpr const char* kDevicePlaneCreateSymbol = "ronde_device_plane_create";

}  // namespace ronde

/// Defines what such a module exports; part of the macros below.
#define RONDE_DEFINE_DEVICE_MODULE_(Type, function, made)                             \
  extern "C" __attribute__((visibility("default"))) const char* ronde_module_build(); \
  const char* ronde_module_build() { return ::ronde::kModuleBuild; }                  \
  extern "C" __attribute__((visibility("default"))) ::ronde::Type* function();        \
  ::ronde::Type* function() { return (made).release(); }

/// `made` makes the object: a std::unique_ptr.
#define RONDE_DEFINE_ACCELERATOR_MODULE(made) \
  RONDE_DEFINE_DEVICE_MODULE_(Accelerator, ronde_accelerator_create, made)
#define RONDE_DEFINE_DEVICE_PLANE_MODULE(made) \
  RONDE_DEFINE_DEVICE_MODULE_(DevicePlane, ronde_device_plane_create, made)
