// Runs a test once for each instruction set that was compiled and that this CPU has.
#pragma once

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <functional>
#include <string>

#include "ops/kernels/factory.h"

namespace ronde::test {

inline void for_each_target(const std::function<void(const ReduceKernels&)>& body) {
  const auto kernels = create_kernels();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    INFO("instruction set ", kernels_target());
    const std::string name = hwy::TargetName(target);
    CHECK(kernels_target() == (name.starts_with("AVX3") ? "AVX-512" : name));
    body(*kernels);
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace ronde::test
