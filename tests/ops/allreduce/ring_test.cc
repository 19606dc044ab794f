#include "ops/algorithms.h"
#include "tests/ops/allreduce/counted_allreduce.h"

namespace ronde::test {

TEST_CASE("ring_allreduce: every rank sends 2(n-1)/n of the bytes in 2(n-1) steps") {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t count = n * 840;
    const auto traffic = counted_allreduce(&ring_allreduce, ranks, DType::kFloat32, count);
    for (const Traffic& rank : traffic) {
      CHECK(rank.bytes == 2 * (n - 1) * 840 * 4);
      CHECK(rank.messages == 2 * (n - 1));
    }
    CHECK(steps(traffic) == 2 * (ranks - 1));
  }
}

TEST_CASE("ring_allreduce: partial sums of 16-bit types travel as fp32") {
  for (const auto& rank : counted_allreduce(&ring_allreduce, 4, DType::kBfloat16, 4000)) {
    CHECK(rank.bytes == 3 * 1000 * (4 + 2));
  }
}

TEST_CASE("ring_allreduce: large parts go in slices, with no more bytes") {
  const std::size_t count = 1'000'003;
  const auto traffic = counted_allreduce(&ring_allreduce, 2, DType::kFloat32, count);
  CHECK(total_bytes(traffic) == 2 * count * 4);
  CHECK(traffic[0].messages > 2);
}

TEST_CASE("ring_allreduce: fewer elements than ranks") {
  CHECK(total_bytes(counted_allreduce(&ring_allreduce, 5, DType::kInt64, 2)) == 4 * 2 * 2 * 8);
  CHECK(total_bytes(counted_allreduce(&ring_allreduce, 5, DType::kInt64, 0)) == 0);
}

}  // namespace ronde::test
