// Compressed allreduces of device memory whose frames are staged through the host: what the CPU's
// codecs give, bit for bit, step after step.
#include <doctest/doctest.h>

#include <string>

#include "tests/backends/cuda/compressed_steps.h"

namespace ronde::test {
namespace {

void check_staged(const CompressedSteps& steps) {
  check_same_bits<DeviceFixture, LocalFixture>(steps);
}

}  // namespace

TEST_CASE("device compression: every codec gives the CPU's bits, residuals and bytes") {
  for (const char* compression :
       {"fp16", "fp16:ef=on", "bf16:ef=on", "int8", "int8:ef=off", "int4:rounding=stochastic",
        "int8:residual=bf16", "onebit", "topk:ratio=0.05", "powersgd"}) {
    check_staged({.compression = compression});
  }
}

TEST_CASE(
    "device compression: tensors that take turns in host and device memory keep what is left") {
  for (const char* compression : {"int8", "int4", "onebit"}) {
    check_staged({.compression = compression, .steps = 5, .on_host = {1, 2, 4}});
  }
}

}  // namespace ronde::test
