#include "ops/execution/payload_reducer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "ops/kernels/factory.h"
#include "tests/conformance/rank.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

/// Values whose sum depends on the order of addition.
Bytes uneven(DType dtype, int rank, std::size_t count) {
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const double x = std::sin(1.0 + rank * 37.0 + static_cast<double>(i) * 11.0);
    put(dtype, bytes, i, is_floating(dtype) ? x * std::pow(10.0, rank % 4) : std::trunc(x * 100));
  }
  return bytes;
}

Bytes reduced_at_once(const Bundle& bundle, int ranks, std::size_t count) {
  std::vector<Bytes> all;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(uneven(bundle.dtype, rank, count));
  for (const Bytes& one : all) inputs.push_back(one.data());
  Bytes out(count * size_of(bundle.dtype));
  create_payload_reducer(create_kernels())
      ->reduce({bundle.dtype, bundle.op, bundle.prescale, bundle.postscale}, inputs, out.data(),
               count);
  return out;
}

}  // namespace

TEST_CASE("PayloadReducer: every type and op has the bits of deterministic mode") {
  LocalFixture fixture("direct");
  constexpr std::size_t kCount = 13;
  on_ranks(fixture, {2, 3, 5, 8}, [&](const Rank& rank) {
    for (const DType dtype : all_dtypes()) {
      for (const ReduceOp op : all_ops()) {
        for (const double factor : {1.0, 0.75}) {
          if (!is_defined(op, dtype)) continue;
          Bundle bundle = bundle_of(Collective::kAllreduce, dtype, op);
          bundle.prescale = factor;
          bundle.postscale = factor;
          const Bytes moved =
              rank.run_one(bundle, uneven(dtype, rank.rank(), kCount), Place::kOut, kCount);
          rank.expect_no(compare_bytes(reduced_at_once(bundle, rank.size(), kCount), moved),
                         fmt::format("{} {} times {}", to_string(dtype), to_string(op), factor));
        }
      }
    }
  });
}

}  // namespace ronde::test
