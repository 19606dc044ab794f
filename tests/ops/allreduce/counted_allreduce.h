// Runs one allreduce algorithm over counted messages, and checks its result.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "tests/ops/moved.h"

namespace ronde::test {

/// Traffic of an allreduce (sum) of `count` elements, whose result was right on every rank.
inline std::vector<Traffic> counted_allreduce(AlgorithmFunction algorithm, int ranks, DType dtype,
                                              std::size_t count) {
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    Bytes data = operands(ReduceOp::kSum, dtype, transport.rank(), count);
    FlatWork work{.kernels = *kernels, .abort = abort, .reduction = {dtype, ReduceOp::kSum, {}}};
    work.in = work.out = data.data();
    work.bytes = data.size();
    CHECK(algorithm(transport, work, scratch).ok());
    CHECK(compare(ReduceOp::kSum, dtype, ranks, data) == "");
  });
}

}  // namespace ronde::test
