// Runs one reduce_scatter algorithm over counted messages, and checks its result.
#pragma once

#include <vector>

#include "tests/ops/moved.h"

namespace ronde::test {

/// Traffic of a reduce_scatter of uneven parts (in elements of int32), whose result was right.
inline std::vector<Traffic> counted_scattering(AlgorithmFunction algorithm, int ranks,
                                               std::size_t unit, bool in_place) {
  std::vector<std::size_t> parts = uneven_chunks(ranks, unit);
  for (std::size_t& part : parts) part *= 4;
  const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    Bytes in = operands(ReduceOp::kSum, DType::kInt32, transport.rank(), all / 4);
    Bytes out(in.size());
    FlatWork work{
        .kernels = *kernels, .abort = abort, .reduction = {DType::kInt32, ReduceOp::kSum, {}}};
    work.in = in.data();
    work.out = in_place ? in.data() : out.data();
    work.bytes = all;
    work.chunk_bytes = parts;
    CHECK(algorithm(transport, work, scratch).ok());
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto begin = std::accumulate(parts.begin(), parts.begin() + transport.rank(), 0UL);
    Bytes& result = in_place ? in : out;
    result.resize(parts[rank]);
    CHECK(compare(ReduceOp::kSum, DType::kInt32, ranks, result, begin / 4) == "");
  });
}

}  // namespace ronde::test
