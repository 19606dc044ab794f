// The sparse allreduce over ranks as threads: values, bits, volume, and what is left over.
#include <limits>
#include <numeric>

#include "ops/compression/sparse/codecs.h"
#include "tests/ops/compression/compressed_job.h"

namespace ronde::test {
namespace {

Job job_of(const char* compression, int ranks, std::vector<std::size_t> counts) {
  Job job;
  job.compression = compression;
  job.ranks = ranks;
  job.counts = std::move(counts);
  job.keeps = true;
  return job;
}

/// Checks that what was given equals what arrived and what is left, and returns the last.
double check_nothing_is_lost(Job& job, unsigned steps) {
  const std::size_t count = job.counts[0];
  std::vector<double> given(count), got(count), left(count);
  for (unsigned step = 0; step < steps; ++step) {
    job.step(step);
    const auto exact = job.sums(0, step);
    for (std::size_t i = 0; i < count; ++i) {
      given[i] += exact[i];
      got[i] += job.results[0][0][i];
    }
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    const auto values = job.left(rank, 0);
    for (std::size_t i = 0; i < count; ++i) left[i] += values[i];
  }
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(got[i] + left[i] == doctest::Approx(given[i]).epsilon(1e-4).scale(1.0));
    squares += left[i] * left[i];
  }
  return std::sqrt(squares);
}

std::size_t nonzero(const std::vector<float>& values) {
  return values.size() - static_cast<std::size_t>(std::count(values.begin(), values.end(), 0.0F));
}

}  // namespace

TEST_CASE("Two ranks' top-k is the sum of what each finds largest") {
  Job job = job_of("topk:ratio=0.05", 2, {5000});
  job.step();
  std::vector<float> wanted(5000);
  for (const int rank : {0, 1}) {
    const auto values = job.input(rank, 0, 0);
    std::vector<std::size_t> order(5000);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(values[a]) > std::abs(values[b]);
    });
    for (std::size_t i = 0; i < 250; ++i) wanted[order[i]] += values[order[i]];
    auto left = values;
    for (std::size_t i = 0; i < 250; ++i) left[order[i]] = 0;
    CHECK(same_bits(job.left(rank, 0), left));
  }
  CHECK(same_bits(job.results[0][0], wanted));
  CHECK(same_bits(job.results[1][0], wanted));
}

TEST_CASE("Sparse sums are the same bits on all ranks, whatever the sizes") {
  for (const char* compression : {"topk", "topk:ratio=0.3", "topk:select=sampled", "randomk",
                                  "randomk:ratio=0.5,ef=off", "topk:ratio=1"}) {
    for (const int ranks : {1, 2, 3, 5}) {
      Job job = job_of(compression, ranks, {3000, 1, 70, 0, 50'000});
      job.keeps = job.compression.find("off") == std::string::npos;
      job.step();
      INFO(compression, " of ", ranks, " ranks");
      for (std::size_t t = 0; t < job.counts.size(); ++t) {
        for (const auto& other : job.results) CHECK(same_bits(other[t], job.results[0][t]));
      }
      CHECK(std::abs(job.results[0][1][0] - job.sums(1)[0]) < 1e-5);
    }
  }
}

TEST_CASE("All of it is the exact sum") {
  Job job = job_of("topk:ratio=1", 3, {10'000});
  job.step();
  CHECK(error(job.results[2][0], job.sums(0)) < 1e-6);
}

TEST_CASE("What a sparse step does not send comes with the next ones") {
  for (const char* compression : {"topk", "topk:select=sampled,ratio=0.05", "randomk:ratio=0.05"}) {
    for (const int ranks : {2, 3, 8}) {
      Job job = job_of(compression, ranks, {20'000});
      job.factor = 1.0 / ranks;
      INFO(compression, ", ", ranks, " ranks");
      CHECK(check_nothing_is_lost(job, 5) > 0);
    }
  }
}

TEST_CASE("Volume stays below 6k words at any number of ranks") {
  constexpr std::size_t kCount = 400'000, kChosen = 4000;
  for (const int ranks : {2, 4, 8, 16}) {
    for (const bool together : {false, true}) {  // large gradients anywhere; or in one region
      Job job = job_of("topk", ranks, {kCount});
      if (together) {
        job.given = [](int rank, std::size_t, unsigned step) {
          auto values = gradients(kCount, static_cast<unsigned>(rank) + 100 * step);
          for (std::size_t i = 50'000; i < 60'000; ++i) values[i] *= 1000;
          return values;
        };
      }
      job.step(0);
      job.step(1);
      INFO(ranks, " ranks", together ? ", in one region" : "");
      const std::size_t headers = static_cast<std::size_t>(ranks) * 2 * 13;
      for (const Traffic& one : job.traffic) CHECK(one.bytes <= 6 * kChosen * 4 + headers);
    }
  }
}

TEST_CASE("Random-k sends no indices: k values to owners and k from them") {
  for (const int ranks : {2, 4, 16}) {
    Job job = job_of("randomk", ranks, {400'000});
    job.step();
    const std::size_t n = static_cast<std::size_t>(ranks);
    for (const Traffic& one : job.traffic) {
      CHECK(one.bytes <= 2UL * 4000 * 4 + n * 2 * (8 + 13 + 4));
      CHECK(one.bytes >= 2UL * 4000 * 4 * (n - 1) / n);
    }
  }
}

TEST_CASE("Many ranks' choices are cut to 2k; what is cut stays with its owner") {
  Job job = job_of("topk", 8, {40'000});
  job.step();
  CHECK(nonzero(job.results[0][0]) <= 800 + 8);
  CHECK(nonzero(job.results[0][0]) > 700);
}

TEST_CASE("Sums that fill up travel dense") {
  Job job = job_of("topk:ratio=0.9", 4, {40'000});
  job.step();
  CHECK(total_bytes(job.traffic) <= 2 * 3 * 40'000 * 4 + 4 * 3 * 2 * 13);
}

TEST_CASE("Random-k without error feedback is right on average") {
  Job job = job_of("randomk:ratio=0.1,ef=off", 2, {500});
  job.keeps = false;
  std::vector<double> mean(500);
  constexpr unsigned kSteps = 2000;
  job.given = [](int rank, std::size_t, unsigned) {
    return gradients(500, static_cast<unsigned>(rank));
  };
  for (unsigned step = 0; step < kSteps; ++step) {
    job.step(step);
    for (std::size_t i = 0; i < 500; ++i) mean[i] += job.results[0][0][i] / kSteps;
  }
  const auto exact = job.sums(0);
  for (std::size_t i = 0; i < 500; ++i) {  // each is 0 or 10 times too much: 3 / sqrt(2000) of it
    CHECK(std::abs(mean[i] - exact[i]) <= 6 * 3.0 / std::sqrt(kSteps) * std::abs(exact[i]) + 1e-6);
  }
}

TEST_CASE("Ranks at different steps of random-k are added up all the same") {
  Job job = job_of("randomk:ratio=0.05", 3, {20'000});
  job.step(0);
  const auto kernels = create_kernels();
  std::vector<std::vector<float>> results(3);
  count_traffic(3, [&](Transport& transport, Scratch& scratch) {
    const auto me = static_cast<std::size_t>(transport.rank());
    auto& values = results[me];
    values = job.input(transport.rank(), 0, 7);
    auto* data = reinterpret_cast<std::byte*>(values.data());
    const std::vector<CompressedPiece> pieces{{data, data, values.size(), 0, 0}};
    const Scheme scheme(*parse_compression("randomk:ratio=0.05"));
    std::vector<CompressedTensor> tensors(1);
    tensors[0].residual = job.stores[me]->find(0, "0", 20'000);
    tensors[0].common_key = me;
    CompressedWork compressed(scheme, tensors);
    const AbortToken abort;
    std::vector<float> left(20'000);
    CompressedAllreduce work{
        .kernels = *kernels, .abort = abort, .compression = compressed, .pieces = pieces};
    work.left = left.data();
    CHECK(compressed_allreduce(transport, work, scratch).ok());
  });
  CHECK(same_bits(results[0], results[1]));
  CHECK(same_bits(results[0], results[2]));
  CHECK(nonzero(results[0]) > 2500);
}

TEST_CASE("A step with NaN arrives, and leaves residuals and momentum as they were") {
  Job job = job_of("topk:momentum=0.9", 2, {6000});
  job.step(0);
  const auto before = job.stores[1]->save().value();
  REQUIRE(before.size() == 2);
  job.given = [](int rank, std::size_t, unsigned step) {
    auto values = gradients(6000, step);
    if (rank == 0) values[3000] = std::numeric_limits<float>::quiet_NaN();
    return values;
  };
  job.step(1);
  CHECK(std::isnan(job.results[1][0][3000]));
  const auto after = job.stores[1]->save().value();
  CHECK(same_bits(after[0].values, before[0].values));
  CHECK(same_bits(after[1].values, before[1].values));
}

TEST_CASE("Momentum correction and factor masking are those of the paper") {
  // One element is sent in each step; the formulas are written out for both elements.
  for (const bool masking : {true, false}) {
    Job job =
        job_of(masking ? "topk:ratio=0.5,momentum=0.5" : "topk:ratio=0.5,momentum=0.5,masking=off",
               1, {2});
    job.given = [](int, std::size_t, unsigned step) {
      return std::vector<float>{1.0F + static_cast<float>(step), 1.6F};
    };
    double u[2] = {}, v[2] = {};
    for (unsigned step = 0; step < 6; ++step) {
      job.step(step);
      const double g[2] = {1.0 + step, static_cast<double>(1.6F)};
      for (int i : {0, 1}) u[i] = 0.5 * u[i] + g[i], v[i] += u[i];
      const int sent = std::abs(v[0]) >= std::abs(v[1]) ? 0 : 1;
      CHECK(job.results[0][0][static_cast<std::size_t>(sent)] == doctest::Approx(v[sent]));
      CHECK(job.results[0][0][static_cast<std::size_t>(1 - sent)] == 0.0F);
      v[sent] = 0;
      if (masking) u[sent] = 0;
    }
  }
}

TEST_CASE("Where all is sent, momentum goes on from step to step") {
  Job job = job_of("topk:ratio=1,momentum=0.5", 2, {3});
  job.given = [](int, std::size_t, unsigned) { return std::vector<float>{1, 2, 3}; };
  for (unsigned step = 0; step < 3; ++step) {
    job.step(step);
    const float velocity = step == 0 ? 1.0F : step == 1 ? 1.5F : 1.75F;
    for (const std::size_t i : {0U, 1U, 2U}) {
      CHECK(job.results[0][0][i] == 2 * velocity * static_cast<float>(i + 1));
    }
  }
}

TEST_CASE("A warm-up sends all, then a quarter, a sixteenth, ... until its steps are over") {
  const auto spec = *parse_compression("topk:ratio=0.001,warmup=160");
  const auto stage = [&](std::uint64_t begin, std::uint64_t end, double share) {
    CHECK(ratio_at(spec, begin) == share);
    CHECK(ratio_at(spec, end - 1) == share);
  };
  stage(0, 10, 1);
  stage(10, 20, 0.25);
  stage(20, 40, 0.0625);
  stage(40, 80, 0.015625);
  stage(80, 160, 0.00390625);
  stage(160, 1000, 0.001);
  CHECK(ratio_at(*parse_compression("topk:ratio=0.01,warmup=1"), 0) == 1);
  CHECK(ratio_at(*parse_compression("topk:ratio=0.01,warmup=1"), 1) == 0.01);
  CHECK(ratio_at(*parse_compression("topk:ratio=0.5,warmup=16"), 4) == 0.5);
  CHECK(ratio_at(*parse_compression("topk:ratio=0.01,warmup=1600"), 400) == 0.015625);
  CHECK(ratio_at(*parse_compression("topk:ratio=0.01,warmup=1600"), 800) == 0.01);
  CHECK(chosen_elements(0.01, 0) == 0);
  CHECK(chosen_elements(0.01, 1) == 1);
  CHECK(chosen_elements(0.01, 1000) == 10);
  CHECK(chosen_elements(0.01, 1001) == 11);
  CHECK(chosen_elements(1.0, 77) == 77);
}

TEST_CASE("A tensor whose residual cannot be kept travels dense") {
  Job job = job_of("topk", 2, {5000});
  job.keeps = false;
  job.step();
  CHECK(error(job.results[0][0], job.sums(0)) < 1e-6);
}

TEST_CASE("Top-k contracts: what is left is at most (1 - ratio) of the squares") {
  Job job = job_of("topk:ratio=0.1", 1, {10'000});
  job.step();
  double given = 0, left = 0;
  for (const float v : job.input(0, 0, 0)) given += static_cast<double>(v) * v;
  for (const float v : job.left(0, 0)) left += static_cast<double>(v) * v;
  CHECK(left <= 0.9 * given);
  CHECK(left > 0);
}

}  // namespace ronde::test
