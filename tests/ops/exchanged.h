// Runs all-to-all algorithms over counted messages, and checks what arrives.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <vector>

#include "tests/ops/moved.h"

namespace ronde::test {

/// The bytes that one rank sends another: uneven, sometimes none.
inline std::size_t bytes_exchanged(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 7) * 10;
}

/// Traffic of an alltoall of uneven blocks, or in place of even ones, which arrived.
inline std::vector<Traffic> counted_exchange(AlgorithmFunction algorithm, int ranks,
                                             bool even_in_place) {
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const int me = transport.rank();
    Bytes in;
    Bytes wanted;
    std::vector<std::size_t> sends;
    std::vector<std::size_t> receives;
    for (int peer = 0; peer < ranks; ++peer) {
      sends.push_back(even_in_place ? 10 : bytes_exchanged(me, peer));
      receives.push_back(even_in_place ? 10 : bytes_exchanged(peer, me));
      const Bytes given = pattern(me * 100 + peer, sends.back());
      const Bytes taken = pattern(peer * 100 + me, receives.back());
      in.insert(in.end(), given.begin(), given.end());
      wanted.insert(wanted.end(), taken.begin(), taken.end());
    }
    Bytes out(wanted.size());
    FlatWork work = moving(*kernels, abort);
    work.in = in.data();
    work.out = even_in_place ? in.data() : out.data();
    work.bytes = in.size();
    work.send_bytes = sends;
    work.recv_bytes = receives;
    CHECK(algorithm(transport, work, scratch).ok());
    CHECK(compare_bytes(even_in_place ? in : out, wanted) == "");
  });
}

}  // namespace ronde::test
