// Sums that are compared with float64: healthy ones are within the bound, a wrong one is found.
#include "ops/execution/mean_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <random>

#include "core/base/log.h"
#include "ops/kernels/factory.h"
#include "tests/conformance/values.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// One allreduce on each of some ranks, with the first tensor of two compared.
struct Comparison {
  std::string algorithm = {};
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;
  int sick = -1;    ///< The rank whose result is changed.
  int joined = -1;  ///< A rank that has joined.
};

Bytes drawn(DType dtype, int rank, std::size_t count) {
  std::mt19937 draw(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(draw);
  Bytes bytes(count * size_of(dtype));
  create_kernels()->cast(DType::kFloat64, values.data(), dtype, bytes.data(), count);
  return bytes;
}

/// Runs it; `totals` gets the counts of rank 0.
void run(const Comparison& what, int ranks, std::size_t count, MeanErrors& totals) {
  LocalFixture fixture(what.algorithm);
  fixture.run(ranks, [&](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    MeanErrors mine;
    auto plane = backend.open(group, exchange);
    REQUIRE(plane.ok());
    ExecutorOptions options;
    options.host.whole = std::move(plane).value();
    options.kernels = create_kernels();
    options.algorithm = what.algorithm;
    options.rank = rank;
    options.size = ranks;
    options.check_mean = MeanCheckOptions{.totals = rank == 0 ? &totals : &mine};
    for (int r = 0; r < ranks; ++r) options.check_mean->ranks.push_back(r + 10);
    options.on_result = [&](const Bundle&, const Work& work, bool) {
      if (rank == what.sick)
        work.segments[0].out[count / 2 * size_of(what.dtype)] ^= std::byte{0x40};
    };
    auto executor = create_executor(std::move(options));
    REQUIRE(executor.ok());
    const Bytes in = drawn(what.dtype, rank, count);
    Bytes out(in.size());
    Bundle bundle;
    bundle.kind = Collective::kAllreduce;
    bundle.dtype = what.dtype;
    bundle.op = what.op;
    bundle.prescale = what.prescale;
    BundleTensor tensor;
    tensor.shape = {static_cast<std::int64_t>(count)};
    if (rank != what.joined) {
      tensor.name = "compared";
      tensor.in = in.data();
      tensor.out = out.data();
    }
    tensor.checks_mean = true;
    bundle.tensors = {tensor, tensor};
    bundle.tensors[1].checks_mean = false;
    Bytes other = in;
    if (tensor.out != nullptr) bundle.tensors[1].out = other.data();
    CHECK((*executor)->execute(bundle, *group.abort).ok());
    CHECK(exchange.allgather("done").ok());
  });
}

/// The lines of the log meanwhile.
class Lines {
 public:
  Lines() {
    set_log(LogLevel::kWarning, [this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_ += line;
    });
  }
  ~Lines() { set_log(LogLevel::kWarning, {}); }
  [[nodiscard]] bool have(std::string_view part) const {
    return text_.find(part) != std::string::npos;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace

TEST_CASE("ulp_at: the distance of neighbouring values") {
  CHECK(ulp_at(DType::kFloat32, 1.5) == std::ldexp(1.0, -23));
  CHECK(ulp_at(DType::kFloat32, 2.0) == std::ldexp(1.0, -22));
  CHECK(ulp_at(DType::kFloat64, 1.0) == std::ldexp(1.0, -52));
  CHECK(ulp_at(DType::kFloat16, 0.0) == std::ldexp(1.0, -24));
  CHECK(ulp_at(DType::kBfloat16, 1.0) == std::ldexp(1.0, -7));
  CHECK(ulp_at(DType::kFloat8E4m3, 1.0) == 0.125);
}

TEST_CASE("mean check: rounding stays within the bound, in every type and algorithm") {
  const Lines lines;
  for (const char* const algorithm : {"", "ring", "tree", "halving_doubling", "direct"}) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
                                DType::kFloat8E4m3}) {
        for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum}) {
          for (const double prescale : {1.0, 0.3}) {
            MeanErrors totals;
            run({algorithm, dtype, op, prescale}, ranks, 1009, totals);
            INFO(algorithm, " of ", ranks, " ", std::string(to_string(dtype)));
            CHECK(totals.compared == 1);
            CHECK(totals.worst_ulps <= mean_error_bound(ranks));
            CHECK(totals.beyond == 0);
          }
        }
      }
    }
  }
  CHECK(!lines.have("wrong"));
}

TEST_CASE("mean check: a wrong result of one rank is named on the first") {
  const Lines lines;
  MeanErrors totals;
  run({.dtype = DType::kBfloat16, .sick = 2}, 3, 70'001, totals);
  CHECK(totals.compared == 1);
  CHECK(totals.beyond == 1);
  CHECK(lines.have("\"compared\" is wrong by"));
  CHECK(lines.have("at element 35000 on rank 12"));
}

TEST_CASE("mean check: a rank that has joined puts in zeros, and another one reports") {
  const Lines lines;
  for (const int joined : {0, 2}) {
    MeanErrors totals;
    run({.joined = joined}, 3, 1009, totals);
    CHECK(totals.compared == 1);
    CHECK(totals.beyond == 0);
  }
  MeanErrors totals;
  run({.sick = 2, .joined = 0}, 3, 1009, totals);
  CHECK(lines.have("\"compared\" is wrong by"));
  CHECK(lines.have("on rank 12"));
}

}  // namespace ronde::test
