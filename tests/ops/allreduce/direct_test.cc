#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "ops/algorithms.h"
#include "tests/ops/allreduce/counted_allreduce.h"

namespace ronde::test {
namespace {

// Values of rank `rank` whose float32 sum depends on the order of addition.
std::vector<float> uneven_values(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);  // NOLINT: reproducible
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(std::ldexp(mantissa(random), static_cast<int>(i * 7 % 23)));
  }
  return values;
}

// The sum over 5 ranks of elements [begin, end), moved as one tensor; as rank 3 has it.
std::vector<float> summed(AlgorithmFunction algorithm, std::size_t begin, std::size_t end) {
  std::vector<float> result;
  count_traffic(5, [&](Transport& transport, Scratch& scratch) {
    const auto kernels = plain_kernels();
    const AbortToken abort;
    const std::vector<float> all = uneven_values(transport.rank(), 1000);
    std::vector<float> data(all.begin() + static_cast<std::ptrdiff_t>(begin),
                            all.begin() + static_cast<std::ptrdiff_t>(end));
    FlatWork work{
        .kernels = *kernels, .abort = abort, .reduction = {DType::kFloat32, ReduceOp::kSum, {}}};
    work.out = reinterpret_cast<std::byte*>(data.data());
    work.in = work.out;
    work.bytes = data.size() * sizeof(float);
    CHECK(algorithm(transport, work, scratch).ok());
    if (transport.rank() == 3) result = data;
  });
  return result;
}

// True if the sum of a whole tensor has the same bits as the sums of its three pieces.
bool indifferent_to_cuts(AlgorithmFunction algorithm) {
  const std::vector<float> whole = summed(algorithm, 0, 1000);
  std::vector<float> pieces;
  for (const auto& [begin, end] : {std::pair{0, 17}, std::pair{17, 600}, std::pair{600, 1000}}) {
    const auto piece =
        summed(algorithm, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  return std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("direct_allreduce: 2(n-1)/n of the bytes, 16-bit types as they are") {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto n = static_cast<std::size_t>(ranks);
    const auto small = counted_allreduce(&direct_allreduce, ranks, DType::kBfloat16, n * 100);
    for (const Traffic& rank : small) CHECK(rank.bytes == 2 * (n - 1) * 200);
    CHECK(steps(small) == 1 + static_cast<int>(std::bit_width(n - 1)));
    const auto large = counted_allreduce(&direct_allreduce, ranks, DType::kBfloat16, n * 10'000);
    for (const Traffic& rank : large) CHECK(rank.bytes == 2 * (n - 1) * 20'000);
    CHECK(steps(large) == ranks);
  }
}

TEST_CASE("direct_allreduce: large tensors go in slices, with no more bytes") {
  const auto traffic = counted_allreduce(&direct_allreduce, 3, DType::kFloat32, 3'000'000);
  CHECK(total_bytes(traffic) == 4 * std::size_t{12'000'000});
  CHECK(traffic[0].messages > 4);
}

TEST_CASE("direct_allreduce: the same bits however a tensor is cut") {
  CHECK(indifferent_to_cuts(&direct_allreduce));
  CHECK_FALSE(indifferent_to_cuts(&ring_allreduce));  // the data does tell orders apart
}

TEST_CASE("direct_allreduce: fewer elements than ranks") {
  for (const std::size_t count : {0U, 1U, 3U}) {
    counted_allreduce(&direct_allreduce, 5, DType::kFloat16, count);
  }
}

}  // namespace ronde::test
