// The conformance suite over the real NCCL.
#include "tests/backends/nccl/nccl_cases.h"
#include "tests/gpu/nccl_ranks.h"

namespace ronde::test {

RONDE_NCCL_CONFORMANCE("gpu nccl", NcclGpuFixture)

}  // namespace ronde::test
