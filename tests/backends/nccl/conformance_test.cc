// The conformance suite over a fake NCCL.
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {

RONDE_DEVICE_CONFORMANCE("nccl", NcclFixture)

}  // namespace ronde::test
