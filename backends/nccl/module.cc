// What libronde_nccl.so exports.
#include "backends/nccl/factory.h"

RONDE_DEFINE_MODULE(ronde::create_nccl_backend)
