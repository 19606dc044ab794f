// The conformance suite on device memory that is staged through the host.
#include "tests/backends/cuda/device_ranks.h"

namespace ronde::test {

RONDE_CONFORMANCE("staged", DeviceFixture)

}  // namespace ronde::test
