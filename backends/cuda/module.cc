// What libronde_cuda.so exports.
#include "backends/cuda/factory.h"
#include "core/ports/backend_module.h"

RONDE_DEFINE_ACCELERATOR_MODULE(ronde::create_cuda_accelerator)
