// What libronde_nccl.so exports.
#include "backends/nccl/factory.h"
#include "core/ports/device_module.h"

RONDE_DEFINE_DEVICE_PLANE_MODULE(ronde::create_nccl_plane())
