#include "ops/alltoall/pairwise.h"

#include "tests/ops/moved.h"

namespace ronde::test {
namespace {

std::size_t bytes_between(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 7) * 10;
}

std::vector<Traffic> counted(int ranks, bool even_in_place) {
  return count_traffic(ranks, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const int me = transport.rank();
    Bytes in;
    Bytes wanted;
    std::vector<std::size_t> sends;
    std::vector<std::size_t> receives;
    for (int peer = 0; peer < ranks; ++peer) {
      sends.push_back(even_in_place ? 10 : bytes_between(me, peer));
      receives.push_back(even_in_place ? 10 : bytes_between(peer, me));
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
    CHECK(pairwise_alltoall(transport, work, scratch).ok());
    CHECK(compare_bytes(even_in_place ? in : out, wanted) == "");
  });
}

}  // namespace

TEST_CASE("pairwise_alltoall: n-1 messages, and only what is meant for others") {
  for (const int ranks : {2, 3, 4, 7}) {
    const auto traffic = counted(ranks, false);
    for (int rank = 0; rank < ranks; ++rank) {
      std::size_t bytes = 0;
      for (int to = 0; to < ranks; ++to) bytes += to == rank ? 0 : bytes_between(rank, to);
      CHECK(traffic[static_cast<std::size_t>(rank)].bytes == bytes);
      CHECK(traffic[static_cast<std::size_t>(rank)].messages ==
            static_cast<std::size_t>(ranks - 1));
    }
  }
}

TEST_CASE("pairwise_alltoall: in place, no block is overwritten before it was sent") {
  for (const int ranks : {2, 3, 4, 7}) counted(ranks, true);
}

}  // namespace ronde::test
