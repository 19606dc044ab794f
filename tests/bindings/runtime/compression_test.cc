// Compression through whole jobs of real processes.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "bindings/runtime/runtime.h"
#include "bindings/runtime/timeline.h"
#include "ops/compression/residuals.h"
#include "tests/backends/net/processes.h"
#include "tests/bindings/runtime/sums.h"
#include "tests/timeline/scratch.h"

/// In a child process: ends it with a text that says what went wrong.
#define EXPECT(condition)                                                                 \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      return 1;                                                                           \
    }                                                                                     \
  } while (false)

namespace ronde {
namespace {

/// Runs `body` as both ranks of a job whose settings have this compression.
void run_pair(const std::string& setting, const std::function<int(Runtime&, int)>& body) {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    Config config = net::rank_config(job, rank, 2);
    config.compression = setting;
    auto runtime = Runtime::create(config);
    EXPECT(runtime.ok());
    return body(**runtime, rank);
  });
  CHECK(codes == std::vector<int>{0, 0});
}

/// A sum of a matrix of 100 rows, compressed.
Status compressed_sum(Runtime& runtime, const std::string& compression, const std::string& name,
                      std::vector<float>& values) {
  Submission submission = sum_of(name, values);
  submission.request.tensors[0].shape = {100, static_cast<std::int64_t>(values.size()) / 100};
  submission.request.compression = compression;
  const auto done = runtime.operations().run(kGlobalSet, std::move(submission));
  return done.ok() ? (*done)->status() : done.status();
}

std::vector<float> waves(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i) * static_cast<float>(rank + 1));
  }
  return values;
}

/// True if a sum of waves() was rounded.
bool was_rounded(const std::vector<float>& sum) {
  const auto a = waves(0, sum.size()), b = waves(1, sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] != a[i] + b[i]) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("Runtime: what compression loses is measured where that is asked for, and shown") {
  const ScratchFolder scratch;
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(2, [&](int rank) {
    Config config = net::rank_config(job, rank, 2);
    config.compression_error_steps = 2;
    auto runtime = Runtime::create(config);
    EXPECT(runtime.ok());
    EXPECT((*runtime)->timeline().start(scratch.file("t.json")).ok());
    for (int step = 0; step < 3; ++step) {
      auto values = waves(rank, 10'000);
      EXPECT(compressed_sum(**runtime, "int4", "w", values).ok());
    }
    const auto losses = (*runtime)->residuals().losses();
    EXPECT(losses.size() == 1 && losses.count({kGlobalSet, "w"}) == 1);
    const CompressionLoss loss = losses.at({kGlobalSet, "w"});
    EXPECT(loss.lost > 0 && loss.lost < 0.5 * loss.result);
    EXPECT((*runtime)->timeline().stop().ok());
    return 0;
  });
  CHECK(codes == std::vector<int>{0, 0});
  const std::string trace = content_of(scratch.file("t.rank0.json"));
  const std::string counter = "compression error of w";
  const std::size_t first = trace.find(counter);
  REQUIRE(first != std::string::npos);
  const std::size_t second = trace.find(counter, first + 1);
  REQUIRE(second != std::string::npos);
  CHECK(trace.find(counter, second + 1) == std::string::npos);  // steps 0 and 2
}

TEST_CASE("Runtime: a compressed sum is rounded and leaves a residual") {
  run_pair("", [](Runtime& runtime, int rank) {
    auto values = waves(rank, 10'000);
    EXPECT(compressed_sum(runtime, "int8", "w", values).ok());
    EXPECT(was_rounded(values));
    EXPECT(runtime.residuals().bytes() == 40'000);
    const auto saved = runtime.residuals().save().value();
    EXPECT(saved.size() == 1 && saved[0].name == "w" && saved[0].steps == 1);
    EXPECT(runtime.residuals().load({}).ok());
    EXPECT(runtime.residuals().bytes() == 0);
    return 0;
  });
}

TEST_CASE("Runtime: ranks that compress otherwise get the same error, which names both") {
  run_pair("", [](Runtime& runtime, int rank) {
    auto values = waves(rank, 1000);
    const Status status = compressed_sum(runtime, rank == 0 ? "int8" : "int4", "w", values);
    EXPECT(status.code() == Code::kMismatch);
    EXPECT(status.message().find("compression \"int8\"") != std::string::npos);
    EXPECT(status.message().find("compression \"int4\"") != std::string::npos);
    return 0;
  });
}

TEST_CASE("Runtime: a job's compression that sends little is for larger matrices still") {
  run_pair("topk:ratio=0.1,warmup=0", [](Runtime& runtime, int rank) {
    auto small = waves(rank, 16'300), large = waves(rank, 16'400), named = waves(rank, 16'300);
    EXPECT(compressed_sum(runtime, "", "small", small).ok());
    EXPECT(compressed_sum(runtime, "", "large", large).ok());
    EXPECT(compressed_sum(runtime, "topk:ratio=0.1", "named", named).ok());
    EXPECT(!was_rounded(small) && was_rounded(large) && was_rounded(named));
    return 0;
  });
}

TEST_CASE("Runtime: a job's compression that sends little sends all at first, single sums do not") {
  run_pair("topk:ratio=0.1", [](Runtime& runtime, int rank) {
    auto trained = waves(rank, 20'000), single = waves(rank, 20'000);
    EXPECT(compressed_sum(runtime, "", "trained", trained).ok());
    EXPECT(compressed_sum(runtime, "topk:ratio=0.1", "single", single).ok());
    EXPECT(!was_rounded(trained) && was_rounded(single));
    return 0;
  });
}

TEST_CASE("Runtime: the job's compression is for large matrices that name none") {
  run_pair("int4", [](Runtime& runtime, int rank) {
    auto large = waves(rank, 10'000), small = waves(rank, 1000), vector = waves(rank, 10'000),
         dense = waves(rank, 10'000);
    EXPECT(compressed_sum(runtime, "", "large", large).ok());
    EXPECT(compressed_sum(runtime, "", "small", small).ok());
    EXPECT(compressed_sum(runtime, "none", "dense", dense).ok());
    EXPECT(sum(runtime, kGlobalSet, "vector", vector).ok());
    EXPECT(was_rounded(large));
    EXPECT(!was_rounded(small) && !was_rounded(dense) && !was_rounded(vector));
    return 0;
  });
}

TEST_CASE("Runtime: what is wrong with a compression is said at once") {
  Config config;
  config.compression = "int9";
  const auto refused = Runtime::create(config);
  CHECK(refused.status().code() == Code::kInvalidArgument);
  CHECK(refused.status().message().find("'int9'") != std::string::npos);

  const auto alone = Runtime::create({});
  REQUIRE(alone.ok());
  auto values = waves(0, 100);
  const Status unknown = compressed_sum(**alone, "int8:block=3", "w", values);
  CHECK(unknown.message().find("block=3; allowed") != std::string::npos);
  Submission whole = sum_of("i", values);
  whole.request.compression = "int8";
  whole.request.tensors[0].dtype = DType::kInt32;
  const auto integers = (*alone)->operations().run(kGlobalSet, std::move(whole));
  CHECK(integers.status().code() == Code::kInvalidArgument);
  CHECK(integers.status().message().find("int32") != std::string::npos);
  CHECK(compressed_sum(**alone, "int8", "w", values).ok());
  CHECK(values == waves(0, 100));
}

}  // namespace ronde
