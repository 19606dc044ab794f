// Runs algorithms that only move bytes over counted messages, and checks what arrives.
#pragma once

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "tests/conformance/values.h"
#include "tests/ops/counting_transport.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {

using AlgorithmFunction = Status (*)(Transport&, const FlatWork&, Scratch&);

/// Chunk lengths that differ between ranks, one of them 0.
inline std::vector<std::size_t> uneven_chunks(int ranks, std::size_t unit) {
  std::vector<std::size_t> parts(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = r == 1 ? 0 : unit * (r + 1);
  return parts;
}

/// All parts one after the other; rank r's is pattern(r).
inline Bytes joined_chunks(const std::vector<std::size_t>& parts) {
  Bytes all;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const Bytes part = pattern(static_cast<int>(r), parts[r]);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// Rank `rank`'s part of `all`.
inline Bytes part_of(const Bytes& all, const std::vector<std::size_t>& parts, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const std::size_t first = std::accumulate(parts.begin(), parts.begin() + rank, std::size_t{0});
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(parts[index])};
}

/// Work over buffers of a test.
inline FlatWork moving(const ReduceKernels& kernels, const AbortToken& abort) {
  return {.kernels = kernels, .abort = abort, .reduction = {DType::kUint8, ReduceOp::kSum, {}}};
}

/// Traffic of an allgather (or gather to `root`) of uneven parts, which arrived.
inline std::vector<Traffic> counted_gathering(AlgorithmFunction algorithm, int ranks,
                                              std::size_t unit, int root = -1) {
  const std::vector<std::size_t> parts = uneven_chunks(ranks, unit);
  const Bytes all = joined_chunks(parts);
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const Bytes in = part_of(all, parts, transport.rank());
    Bytes out(all.size());
    FlatWork work = moving(*kernels, abort);
    work.root = root;
    work.in = in.data();
    work.out = out.data();
    work.bytes = all.size();
    work.chunk_bytes = parts;
    CHECK(algorithm(transport, work, scratch).ok());
    if (root < 0 || root == transport.rank()) CHECK(compare_bytes(out, all) == "");
  });
}

/// Traffic of a broadcast, which arrived; the root's `out` was not touched.
inline std::vector<Traffic> counted_broadcast(AlgorithmFunction algorithm, int ranks,
                                              std::size_t bytes, int root) {
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const bool is_root = transport.rank() == root;
    const Bytes in = pattern(root, bytes);
    Bytes out(is_root ? 0 : bytes);
    FlatWork work = moving(*kernels, abort);
    work.root = root;
    work.in = is_root ? in.data() : nullptr;
    work.out = is_root ? nullptr : out.data();
    work.bytes = bytes;
    CHECK(algorithm(transport, work, scratch).ok());
    if (!is_root) CHECK(compare_bytes(out, in) == "");
  });
}

}  // namespace ronde::test
