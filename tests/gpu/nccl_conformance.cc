// The conformance suite over the real NCCL.
#include "tests/gpu/nccl_ranks.h"

namespace ronde::test {

RONDE_DEVICE_CONFORMANCE("gpu nccl", NcclGpuFixture)

}  // namespace ronde::test
