// Compressed allreduces of device memory over NCCL's double: what tensors in host memory give, bit
// for bit, step after step: results, residuals and bytes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/backends/cuda/compressed_steps.h"
#include "tests/backends/nccl/nccl_fixture.h"

namespace ronde::test {
namespace {

void check_nccl(const CompressedSteps& steps) { check_same_bits<NcclFixture, LocalFixture>(steps); }

}  // namespace

TEST_CASE("nccl compression: every codec with kernels gives the CPU's bits, residuals and bytes") {
  for (const char* compression :
       {"fp16", "fp16:ef=on", "bf16", "bf16:ef=on", "int8", "int8:ef=off", "int4",
        "int8:block=64,rounding=stochastic,seed=5", "int4:block=4096,rounding=stochastic", "onebit",
        "onebit:ef=off,block=256", "onebit:block=4096"}) {
    check_nccl({.compression = compression});
  }
}

}  // namespace ronde::test
