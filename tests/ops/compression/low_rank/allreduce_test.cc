// PowerSGD's allreduce over ranks as threads: values, bits, volume, and what is left over.
#include <limits>

#include "ops/compression/compressed_allreduce.h"
#include "tests/ops/compression/compressed_job.h"

namespace ronde::test {
namespace {

Job job_of(const char* compression, int ranks, std::size_t rows, std::size_t columns) {
  Job job;
  job.compression = compression;
  job.ranks = ranks;
  job.counts = {rows * columns, 50};
  job.columns = {columns, 0};
  job.keeps = true;
  return job;
}

/// A matrix of rank 2, another on each rank.
std::vector<float> thin(std::size_t rows, std::size_t columns, unsigned seed) {
  const auto a = gradients(2 * rows, seed), b = gradients(2 * columns, 99);
  std::vector<float> m(rows * columns);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    m[i] = a[row] * b[column] + a[rows + row] * b[columns + column];
  }
  return m;
}

}  // namespace

TEST_CASE("A sum of low rank arrives as it is, and so do small tensors") {
  for (const int ranks : {1, 2, 3, 5}) {
    Job job = job_of("powersgd:rank=2", ranks, 60, 90);
    job.given = [](int rank, std::size_t t, unsigned) {
      const auto seed = static_cast<unsigned>(rank) + 1;
      return t == 0 ? thin(60, 90, seed) : gradients(50, seed);
    };
    job.step(0);
    INFO(ranks, " ranks");
    CHECK(error(job.results[0][0], job.sums(0)) < 1e-4);
    CHECK(error(job.results[0][1], job.sums(1)) < 1e-6);
    for (const auto& other : job.results) {
      CHECK(same_bits(other[0], job.results[0][0]));
      CHECK(same_bits(other[1], job.results[0][1]));
    }
  }
}

TEST_CASE("What low rank cannot carry comes later, and nothing is lost") {
  Job job = job_of("powersgd:rank=3", 3, 40, 70);
  std::vector<double> given(2800), got(2800), left(2800);
  for (unsigned step = 0; step < 6; ++step) {
    job.step(step);
    const auto exact = job.sums(0, step);
    for (std::size_t i = 0; i < 2800; ++i) {
      given[i] += exact[i];
      got[i] += job.results[0][0][i];
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    const auto values = job.left(rank, 0);
    for (std::size_t i = 0; i < 2800; ++i) left[i] += values[i];
  }
  for (std::size_t i = 0; i < 2800; ++i) {
    REQUIRE(got[i] + left[i] == doctest::Approx(given[i]).epsilon(1e-3).scale(10.0));
  }
}

TEST_CASE("A warm start finds the largest directions of a matrix that stays") {
  Job job = job_of("powersgd:rank=2,ef=off", 2, 60, 60);
  job.given = [](int, std::size_t t, unsigned) {
    if (t == 1) return gradients(50);
    auto m = thin(60, 60, 3);
    const auto noise = gradients(3600, 8);
    for (std::size_t i = 0; i < m.size(); ++i) m[i] += 0.3F * noise[i];
    return m;
  };
  job.step(0);
  const double first = error(job.results[0][0], job.sums(0));
  for (unsigned step = 1; step < 8; ++step) job.step(step);
  CHECK(error(job.results[0][0], job.sums(0)) < 0.95 * first);
}

TEST_CASE("The factors are all that travels of a matrix") {
  Job job = job_of("powersgd:rank=4", 2, 256, 512);
  job.step();
  const std::size_t floats = 4 * (256 + 512) + 50 + 9;
  for (const Traffic& one : job.traffic) CHECK(one.bytes <= floats * 4 + 64);
}

TEST_CASE("Ranks that begin with other factors are told, and begin anew together") {
  Job job = job_of("powersgd:rank=2", 3, 40, 40);
  job.step(0);
  job.stores[1] = std::make_unique<ResidualStore>();  // as one that has loaded no checkpoint
  job.step(1);
  for (const auto& other : job.results) CHECK(same_bits(other[0], job.results[0][0]));
  CHECK(error(job.results[0][0], job.sums(0, 1)) < 2);
  job.step(2);
  for (const auto& other : job.results) CHECK(same_bits(other[0], job.results[0][0]));
}

TEST_CASE("Pieces that begin and end within rows carry their rest as it is") {
  std::vector<std::vector<float>> results(2);
  count_traffic(2, [&](Transport& transport, Scratch& scratch) {
    const auto me = static_cast<std::size_t>(transport.rank());
    auto& values = results[me];
    values = thin(42, 60, static_cast<unsigned>(me) + 1);
    auto* data = reinterpret_cast<std::byte*>(values.data());
    const std::vector<CompressedPiece> pieces{{data + 28, data + 28, 2480, 0, 7}};
    const Scheme scheme(*parse_compression("powersgd:rank=2"));
    std::vector<CompressedTensor> tensors(1);
    tensors[0].columns = 60;
    CompressedWork compressed(scheme, tensors);
    const AbortToken abort;
    const auto kernels = create_kernels();
    const CompressedAllreduce work{
        .kernels = *kernels, .abort = abort, .compression = compressed, .pieces = pieces};
    CHECK(compressed_allreduce(transport, work, scratch).ok());
  });
  const auto a = thin(42, 60, 1), b = thin(42, 60, 2);
  CHECK(std::equal(results[0].begin() + 7, results[0].begin() + 2487, results[1].begin() + 7));
  for (std::size_t i = 7; i < 2487; ++i) {
    REQUIRE(results[0][i] == doctest::Approx(a[i] + b[i]).epsilon(1e-2).scale(1.0));
  }
}

TEST_CASE("A matrix with NaN or infinity arrives as none but NaN, and leaves what was kept") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Job job = job_of("powersgd:rank=2", 2, 40, 40);
    job.step(0);
    const auto before = job.stores[1]->save().value();
    REQUIRE(before.size() == 3);
    job.given = [&](int rank, std::size_t t, unsigned) {
      auto values = gradients(t == 0 ? 1600 : 50);
      if (rank == 0 && t == 0) values[700] = bad;
      return values;
    };
    job.step(1);
    for (const float value : job.results[1][0]) CHECK_FALSE(std::isfinite(value));
    const auto after = job.stores[1]->save().value();
    CHECK(same_bits(after[0].values, before[0].values));
    CHECK(same_bits(after[1].values, before[1].values));
  }
}

}  // namespace ronde::test
