// The compressed allreduce over ranks as threads: values, bits, bytes, and what is left over.
#include "core/base/small_float.h"
#include "ops/compression/compressed_allreduce.h"
#include "tests/ops/compression/compressed_job.h"

namespace ronde::test {

TEST_CASE("A compressed allreduce is near the sum, and the same bits on all ranks") {
  const std::vector<std::pair<const char*, double>> tolerances{
      {"fp16", 1e-3}, {"bf16", 6e-3}, {"int8", 3e-2}, {"int4", 0.5}, {"onebit", 1.2}};
  for (const auto& [compression, tolerance] : tolerances) {
    for (const int ranks : {2, 3, 5}) {
      Job job;
      job.ranks = ranks;
      job.counts = {3000, 1, 70, 0, 513};
      job.compression = compression;
      job.step();
      INFO(job.compression, " of ", ranks, " ranks");
      for (std::size_t t = 0; t < job.counts.size(); ++t) {
        CHECK(error(job.results[0][t], job.sums(t)) < tolerance);
        for (const auto& other : job.results) CHECK(same_bits(other[t], job.results[0][t]));
      }
    }
  }
}

TEST_CASE("Each element is rounded once on its way and once as a sum") {
  // Two ranks, int8: the owner adds its own values exactly, so each hop errs by half a step.
  Job job;
  job.counts = {2048};
  job.step();
  const auto a = job.input(0, 0, 0), b = job.input(1, 0, 0);
  const auto exact = job.sums(0);
  for (std::size_t begin = 0; begin < 2048; begin += 512) {
    float mine = 0, other = 0, sum = 0;
    for (std::size_t i = begin; i < begin + 512; ++i) {
      mine = std::max(mine, std::abs(a[i]));
      other = std::max(other, std::abs(b[i]));
      sum = std::max(sum, std::abs(static_cast<float>(exact[i])));
    }
    const double half_steps = (std::max(mine, other) + sum + mine / 127) / 127 / 2;
    for (std::size_t i = begin; i < begin + 512; ++i) {
      CHECK(std::abs(job.results[0][0][i] - exact[i]) <= half_steps * 1.0001);
    }
  }
}

TEST_CASE("The wire carries the format's own bytes and nothing else") {
  for (const std::string& compression : all_codecs()) {
    for (const int ranks : {2, 3, 4, 8}) {
      Job job;
      job.ranks = ranks;
      job.counts = {300'000, 100'000};
      job.compression = compression;
      job.step();
      const auto codec = codec_of(compression);
      const double encoded =
          static_cast<double>(codec->encoded_bytes(300'000) + codec->encoded_bytes(100'000));
      const double sent = static_cast<double>(total_bytes(job.traffic));
      CHECK_MESSAGE(sent <= 1.02 * 2 * (ranks - 1) * encoded, compression, ", ", ranks, " ranks");
      for (const Traffic& one : job.traffic) {
        CHECK(static_cast<double>(one.bytes) <= 1.1 * sent / ranks);
      }
    }
  }
}

TEST_CASE("Tensors of many cuts arrive whole") {
  Job job;
  job.ranks = 3;
  job.counts = {(std::size_t{1} << 18) * 7 + 5, 11, (std::size_t{1} << 20) + 1};
  job.factor = 1.0 / 3;
  job.step();
  for (std::size_t t = 0; t < 3; ++t) CHECK(error(job.results[1][t], job.sums(t)) < 0.03);
}

TEST_CASE("A tensor's result does not depend on what it is fused with") {
  for (const char* compression : {"int8", "int4", "onebit", "fp16"}) {
    Job alone, fused;
    alone.ranks = fused.ranks = 3;
    alone.compression = fused.compression = compression;
    alone.counts = {3000};
    fused.counts = {3000, 77, 40'000};
    alone.step();
    fused.step();
    CHECK(same_bits(alone.results[0][0], fused.results[0][0]));
  }
}

TEST_CASE("What a step loses comes with the next ones") {
  for (const char* compression : {"int8", "int4", "onebit", "bf16:ef=on"}) {
    for (const int ranks : {1, 2, 3}) {
      Job job;
      job.ranks = ranks + 1;
      job.counts = {5000, 3};
      job.compression = compression;
      job.factor = 1.0 / (ranks + 1);
      job.keeps = true;
      std::vector<double> given(5000), got(5000), left(5000);
      for (unsigned step = 0; step < 4; ++step) {
        job.step(step);
        const auto exact = job.sums(0, step);
        for (std::size_t i = 0; i < 5000; ++i) {
          given[i] += exact[i];
          got[i] += job.results[0][0][i];
        }
      }
      for (const auto& store : job.stores) {
        const auto values = store->find(0, "0", 5000)->values().value();
        for (std::size_t i = 0; i < 5000; ++i) left[i] += values[i];
      }
      INFO(compression, ", ", ranks + 1, " ranks");
      for (std::size_t i = 0; i < 5000; ++i) {
        REQUIRE(got[i] + left[i] == doctest::Approx(given[i]).epsilon(1e-4).scale(1.0));
      }
    }
  }
}

TEST_CASE("A step with NaN leaves the residuals of its tensor on all ranks as they were") {
  Job job;
  job.counts = {600, 600};
  job.compression = "int4";
  job.keeps = true;
  job.step(0);
  const auto before = job.stores[1]->save().value();
  const auto kernels = create_kernels();
  count_traffic(2, [&](Transport& transport, Scratch& scratch) {
    auto& store = *job.stores[static_cast<std::size_t>(transport.rank())];
    std::vector<float> values = gradients(600, 5), other = gradients(600, 6), left(1200);
    if (transport.rank() == 0) values[300] = std::numeric_limits<float>::infinity();
    std::vector<CompressedTensor> tensors(2);
    tensors[0].residual = store.find(0, "0", 600);
    tensors[1].residual = store.find(0, "1", 600);
    auto* a = reinterpret_cast<std::byte*>(values.data());
    auto* b = reinterpret_cast<std::byte*>(other.data());
    const std::vector<CompressedPiece> pieces{{a, a, 600, 0, 0}, {b, b, 600, 1, 0}};
    const std::vector<Segment> segments{{a, a, 2400}, {b, b, 2400}};
    const Scheme scheme(*parse_compression("int4"));
    const AbortToken abort;
    CompressedWork compressed(scheme, tensors);
    CompressedAllreduce work{
        .kernels = *kernels, .abort = abort, .compression = compressed, .pieces = pieces};
    work.left = left.data();
    REQUIRE(quantised_allreduce(transport, work, scratch).ok());
    Work agreed;
    agreed.segments = segments;
    compressed.commit(agreed);
    CHECK_FALSE(std::isfinite(values[300]));
    CHECK(all_finite(DType::kFloat32, other.data(), other.size()));
  });
  const auto after = job.stores[1]->save().value();
  CHECK(same_bits(after[0].values, before[0].values));
  CHECK_FALSE(same_bits(after[1].values, before[1].values));
  const auto others = job.stores[0]->save().value();
  for (const SavedResidual& one : others) {
    CHECK(all_finite(DType::kFloat32, one.values.data(), one.values.size()));
  }
}

TEST_CASE("What is not finite is found in every floating type") {
  const std::vector<double> wide{1, -2, HUGE_VAL};
  CHECK(all_finite(DType::kFloat64, wide.data(), 2));
  CHECK_FALSE(all_finite(DType::kFloat64, wide.data(), 3));
  const std::vector<std::uint16_t> halves{float_to_float16(65504.0F), float_to_float16(HUGE_VALF)};
  CHECK(all_finite(DType::kFloat16, halves.data(), 1));
  CHECK_FALSE(all_finite(DType::kFloat16, halves.data(), 2));
  const std::vector<std::uint16_t> brains{float_to_bfloat16(-3e38F), float_to_bfloat16(NAN)};
  CHECK(all_finite(DType::kBfloat16, brains.data(), 1));
  CHECK_FALSE(all_finite(DType::kBfloat16, brains.data(), 2));
}

TEST_CASE("What a step loses is told as the norm of what waits beside that of the result") {
  for (const char* compression : {"int4", "topk:ratio=0.1", "powersgd"}) {
    CAPTURE(compression);
    Job job;
    job.compression = compression;
    job.counts = {4096, 100};
    job.columns = {64, 0};
    job.keeps = true;
    job.step();
    for (const int rank : {0, 1}) {
      const auto me = static_cast<std::size_t>(rank);
      const auto left = job.left(rank, 0), result = job.results[me][0];
      const auto& loss = job.losses[me][0];
      REQUIRE(loss.has_value());
      CHECK(loss->lost == doctest::Approx(error(left, std::vector<double>(4096))).epsilon(1e-6));
      CHECK(loss->result ==
            doctest::Approx(error(result, std::vector<double>(4096))).epsilon(1e-6));
      CHECK(loss->lost > 0);
    }
    job.given = [](int rank, std::size_t, unsigned) {
      return std::vector<float>(4096, rank == 0 ? INFINITY : 1.0F);
    };
    job.counts = {4096};
    job.step(1);
    CHECK_FALSE(job.losses[0][0].has_value());
  }
  Job without;
  without.compression = "int4:ef=off";
  without.counts = {100};
  without.step();
  CHECK_FALSE(without.losses[0][0].has_value());
}

}  // namespace ronde::test
