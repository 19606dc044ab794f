// Runs one reduce algorithm over counted messages, and checks its result.
#pragma once

#include <vector>

#include "tests/ops/moved.h"

namespace ronde::test {

/// Traffic of a reduce (sum) of `count` elements, whose result was right at the root.
inline std::vector<Traffic> counted_reduce(AlgorithmFunction algorithm, int ranks, DType dtype,
                                           std::size_t count, int root) {
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const bool is_root = transport.rank() == root;
    const Bytes in = operands(ReduceOp::kSum, dtype, transport.rank(), count);
    Bytes out(is_root ? in.size() : 0);
    FlatWork work{.kernels = *kernels, .abort = abort, .reduction = {dtype, ReduceOp::kSum, {}}};
    work.root = root;
    work.in = in.data();
    work.out = is_root ? out.data() : nullptr;
    work.bytes = in.size();
    CHECK(algorithm(transport, work, scratch).ok());
    if (is_root) CHECK(compare(ReduceOp::kSum, dtype, ranks, out) == "");
  });
}

}  // namespace ronde::test
