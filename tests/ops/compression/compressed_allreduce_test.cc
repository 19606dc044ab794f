// The reported bytes and times of a compressed exchange.
#include "ops/compression/compressed_allreduce.h"

#include <doctest/doctest.h>

#include <vector>

#include "ops/transfer.h"
#include "tests/ops/counting_transport.h"

namespace ronde::test {

TEST_CASE("metered: all bytes sent count, in any thread, and other time compresses") {
  std::vector<CompressionFacts> seen(2);
  const AbortToken abort;
  count_traffic(2, [&](Transport& transport, Scratch&) {
    CompressionFacts& facts = seen[static_cast<std::size_t>(transport.rank())];
    facts.wire_bytes = 7;  // of work before
    const Status status = run_metered(transport, facts, [&](Transport& metered) {
      const int peer = 1 - metered.rank();
      const std::vector<std::byte> mine(metered.rank() == 0 ? 100 : 30);
      std::vector<std::byte> theirs(130 - mine.size());
      facts.decompress_ns += 5;
      CHECK(metered.size() == 2);
      return exchange(metered, {peer, mine, peer, theirs}, abort);
    });
    CHECK(status.ok());
  });
  CHECK(seen[0].wire_bytes == 107);
  CHECK(seen[1].wire_bytes == 37);
  for (const CompressionFacts& facts : seen) {
    CHECK(facts.wire_ns > 0);
    CHECK(facts.compress_ns > -5);
    CHECK(facts.decompress_ns == 5);
  }
}

TEST_CASE("metered: the status is that of what ran") {
  CompressionFacts facts;
  count_traffic(1, [&](Transport& transport, Scratch&) {
    const Status status = run_metered(
        transport, facts, [](Transport&) { return Status(Code::kRankFailure, "rank 1 died"); });
    CHECK(status.code() == Code::kRankFailure);
  });
  CHECK(facts.wire_bytes == 0);
}

}  // namespace ronde::test
