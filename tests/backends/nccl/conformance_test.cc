// The conformance suite over NCCL's double.
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {

RONDE_DEVICE_CONFORMANCE("nccl", NcclFixture)

}  // namespace ronde::test
