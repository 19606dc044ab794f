// Conformance: everything that adds, multiplies or compares.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

std::string label(DType dtype, ReduceOp op, std::size_t count, Place place) {
  return fmt::format("{} {} of {} elements {}", to_string(dtype), to_string(op), count,
                     place == Place::kIn ? "in place" : "out of place");
}

void check_allreduce(const Rank& rank, DType dtype, ReduceOp op, std::size_t count, Place place) {
  const std::string where = label(dtype, op, count, place);
  const Bytes out = rank.run_one(bundle_of(Collective::kAllreduce, dtype, op),
                                 operands(op, dtype, rank.rank(), count), place, count);
  rank.expect_no(compare(op, dtype, rank.size(), out), where);
  if (op == ReduceOp::kAverage) rank.expect_same_bits(out, where);
}

// The result of an allreduce of one element; `mine`: this rank's.
double reduced_value(const Rank& rank, Bundle bundle, double mine) {
  Bytes in(size_of(bundle.dtype));
  put(bundle.dtype, in, 0, mine);
  const DType dtype = bundle.dtype;
  return get(dtype, rank.run_one(std::move(bundle), in, Place::kOut, 1), 0);
}

}  // namespace

void conformance_allreduce(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    int turn = 0;
    for (const DType dtype : all_dtypes()) {
      for (const ReduceOp op : all_ops()) {
        if (!is_defined(op, dtype)) continue;
        for (const std::size_t count : {0U, 1U, 13U, 1009U}) {
          check_allreduce(rank, dtype, op, count, ++turn % 2 == 0 ? Place::kIn : Place::kOut);
        }
      }
    }
  });
}

void conformance_large_allreduce(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt8}) {
      check_allreduce(rank, dtype, ReduceOp::kSum, 20'011, Place::kIn);
      check_allreduce(rank, dtype, ReduceOp::kAverage, 20'011, Place::kOut);
    }
    check_allreduce(rank, DType::kFloat32, ReduceOp::kSum, 300'007, Place::kOut);
    check_allreduce(rank, DType::kFloat16, ReduceOp::kSum, 300'007, Place::kIn);
  });
}

void conformance_scaling(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const double n = rank.size();
    for (const DType dtype : all_dtypes()) {
      if (dtype == DType::kBool) continue;
      for (const std::size_t count : {3U, 5003U}) {
        const Bytes in = [&] {
          Bytes bytes(count * size_of(dtype));
          for (std::size_t i = 0; i < count; ++i) put(dtype, bytes, i, 5);
          return bytes;
        }();
        Bundle bundle = bundle_of(Collective::kAllreduce, dtype);
        bundle.prescale = 0.5;
        bundle.postscale = 0.25;
        const double each = is_floating(dtype) ? 2.5 : 2;  // integers: truncated on every rank
        const double sum = is_floating(dtype) ? each * n / 4 : std::trunc(each * n / 4);
        Bytes rounded(size_of(dtype));
        put(dtype, rounded, 0, sum);
        const Bytes out = rank.run_one(bundle, in, Place::kOut, count);
        CHECK(get(dtype, out, 0) == get(dtype, rounded, 0));
        CHECK(get(dtype, out, count - 1) == get(dtype, rounded, 0));
      }
    }
  });
}

void conformance_averages(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const Bundle half = bundle_of(Collective::kAllreduce, DType::kFloat16, ReduceOp::kAverage);
    const Bundle brain = bundle_of(Collective::kAllreduce, DType::kBfloat16, ReduceOp::kAverage);
    CHECK(reduced_value(rank, half, 60000) == 60000);
    const auto largest = static_cast<double>(std::ldexp(255.0, 120));  // of bfloat16
    CHECK(reduced_value(rank, brain, largest) == largest);
    CHECK(reduced_value(rank, brain, -largest) == -largest);
    // 1 + n * 2^-11 rounded at every step would stay 1 in float16, or grow too far.
    const double small = rank.rank() == 0 ? 1 : std::ldexp(1.0, -11);
    const double sum = 1 + (rank.size() - 1) * std::ldexp(1.0, -11);
    Bytes wanted(2);
    put(DType::kFloat16, wanted, 0, sum);
    CHECK(reduced_value(rank, bundle_of(Collective::kAllreduce, DType::kFloat16), small) ==
          get(DType::kFloat16, wanted, 0));
    const Bundle whole = bundle_of(Collective::kAllreduce, DType::kInt32, ReduceOp::kAverage);
    CHECK(reduced_value(rank, whole, 7) == 7);
    CHECK(reduced_value(rank, whole, -7) == -7);
  });
}

void conformance_not_a_number(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    const bool last = rank.rank() == rank.size() - 1;
    for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat8E5m2,
                              DType::kFloat32, DType::kFloat64}) {
      for (const ReduceOp op : all_ops()) {
        if (!is_defined(op, dtype)) continue;
        const Bundle bundle = bundle_of(Collective::kAllreduce, dtype, op);
        CHECK(std::isnan(reduced_value(rank, bundle, last ? nan : 1)));
        CHECK(std::isnan(reduced_value(rank, bundle, rank.rank() == 0 ? nan : 1)));
      }
      const Bundle sum = bundle_of(Collective::kAllreduce, dtype);
      CHECK(reduced_value(rank, sum, last ? infinity : 1) == infinity);
    }
  });
}

void conformance_reduce(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (int root = 0; root < rank.size(); ++root) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt64}) {
        for (const std::size_t count : {0U, 1U, 1009U, 50'021U}) {
          for (const Place place : {Place::kIn, Place::kOut}) {
            const ReduceOp op = root % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMax;
            const Bytes in = operands(op, dtype, rank.rank(), count);
            const Bytes out =
                rank.run_one(bundle_of(Collective::kReduce, dtype, op, root), in, place, count);
            const std::string where = label(dtype, op, count, place);
            if (rank.rank() == root) {
              rank.expect_no(compare(op, dtype, rank.size(), out), where);
            } else if (place == Place::kIn) {
              rank.expect_no(compare_bytes(out, in), where);
            }
          }
        }
      }
    }
  });
}

void conformance_reduce_scatter(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    for (const std::size_t rows : {0UL, 1UL, 7UL, 64UL, 40'009UL}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt16}) {
        const ReduceOp op = rows % 2 == 0 ? ReduceOp::kAverage : ReduceOp::kSum;
        const Bytes in = operands(op, dtype, rank.rank(), rows * 3);
        Bundle bundle = bundle_of(Collective::kReduceScatter, dtype, op);
        Outputs outputs(dtype);
        BundleTensor tensor;
        tensor.name = "rows";
        tensor.in = in.data();
        tensor.shape = {static_cast<std::int64_t>(rows), 3};
        outputs.serve(tensor, 0);
        bundle.tensors = {tensor};
        REQUIRE(rank.run(bundle).ok());
        const auto size = static_cast<std::size_t>(rank.size());
        const auto me = static_cast<std::size_t>(rank.rank());
        const std::size_t mine = rows / size + (me < rows % size ? 1 : 0);
        const std::size_t begin = me * (rows / size) + std::min(me, rows % size);
        CHECK(outputs.shape(0) == Shape{static_cast<std::int64_t>(mine), 3});
        rank.expect_no(compare(op, dtype, rank.size(), outputs.bytes(0), begin * 3),
                       fmt::format("{} rows of {}", rows, to_string(dtype)));
      }
    }
  });
}

void conformance_joined(ConformanceFixture& fixture) {
  on_ranks(fixture, [](const Rank& rank) {
    const bool joined = rank.rank() == rank.size() - 1 && rank.size() > 1;
    for (const std::size_t count : {1U, 1009U, 100'003U}) {
      const Bytes in = operands(ReduceOp::kSum, DType::kInt32, 0, count);
      Bytes out(in.size());
      Bundle bundle = bundle_of(Collective::kAllreduce, DType::kInt32);
      BundleTensor tensor;
      tensor.name = "joined";
      tensor.shape = {static_cast<std::int64_t>(count)};
      tensor.in = joined ? nullptr : in.data();
      tensor.out = joined ? nullptr : out.data();
      bundle.tensors = {tensor};
      REQUIRE(rank.run(bundle).ok());
      if (joined) continue;
      const double others = rank.size() == 1 ? 1 : rank.size() - 1;
      CHECK(get(DType::kInt32, out, count - 1) == others * get(DType::kInt32, in, count - 1));
    }
  });
}

}  // namespace ronde::test
