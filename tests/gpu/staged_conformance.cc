// The conformance suite on device memory that is staged through the host's shared memory.
#include "tests/gpu/gpu_ranks.h"

namespace ronde::test {

RONDE_CONFORMANCE("gpu staged", GpuFixture)

}  // namespace ronde::test
