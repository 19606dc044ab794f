// Conformance: Adasum. Every element is within 1 ulp of the formula, of whole tensors, in a tree.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

// The reference must be far more exact than float64.
#ifdef __SIZEOF_FLOAT128__
__extension__ using Number = __float128;
#else
using Number = long double;
#endif
using Exact = std::vector<Number>;

constexpr DType kTypes[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64};

/// The spacing of numbers of a type at `value`.
long double spacing_at(DType dtype, long double value) {
  struct Format {
    int digits, least;
  };
  const Format format = dtype == DType::kFloat16    ? Format{11, -24}
                        : dtype == DType::kBfloat16 ? Format{8, -133}
                        : dtype == DType::kFloat32  ? Format{24, -149}
                                                    : Format{53, -1074};
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0L, std::max(exponent - format.digits, format.least));
}

/// How the ranks' tensors resemble each other.
enum class Alike { kDrawn, kNearlyOpposite, kZeroAtOdd };

/// The elements of one rank: drawn by its number, and `seed`.
Bytes inputs_of(int rank, DType dtype, std::size_t count, Alike alike, unsigned seed = 0) {
  const bool opposite = alike == Alike::kNearlyOpposite;
  std::mt19937 random(static_cast<unsigned>(opposite ? 0 : rank) + 100 * seed);
  std::uniform_real_distribution<double> values(-1, 1);
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    double value = values(random) * (1 + 0.5 * rank);
    if (opposite) {
      const double off = 1 + (i % 7 == 0 ? 0x1p-6 * rank : 0);
      value = value / (1 + 0.5 * rank) * (rank % 2 == 0 ? 1 : -off);
    }
    if (alike == Alike::kZeroAtOdd && rank % 2 == 1) value = 0;
    put(dtype, bytes, i, value);
  }
  return bytes;
}

Exact exactly(DType dtype, const Bytes& bytes) {
  Exact values(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = get(dtype, bytes, i);
  return values;
}

Number exact_dot(const Exact& a, const Exact& b) {
  Number sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The formula of two tensors, as it is published.
Exact adasum_of(const Exact& a, const Exact& b) {
  const Number ab = exact_dot(a, b), aa = exact_dot(a, a), bb = exact_dot(b, b);
  const Number of_a = aa == 0 ? 1 : 1 - ab / (2 * aa);
  const Number of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  Exact sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

/// The formula of all ranks' tensors: neighbours first.
Exact adasum_of(std::vector<Exact> tensors) {
  while (tensors.size() > 1) {
    std::vector<Exact> next;
    for (std::size_t i = 0; i + 1 < tensors.size(); i += 2) {
      next.push_back(adasum_of(tensors[i], tensors[i + 1]));
    }
    if (tensors.size() % 2 == 1) next.push_back(tensors.back());
    tensors = std::move(next);
  }
  return tensors[0];
}

Exact expected_of(int ranks, DType dtype, std::size_t count, Alike alike, unsigned seed = 0) {
  std::vector<Exact> tensors;
  tensors.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    tensors.push_back(exactly(dtype, inputs_of(rank, dtype, count, alike, seed)));
  }
  return adasum_of(std::move(tensors));
}

std::string far_from(DType dtype, const Bytes& got, const Exact& wanted, double factor = 1) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Number exact = wanted[i] * factor;
    const double value = get(dtype, got, i);
    const auto rounded = static_cast<long double>(exact);
    const auto off = static_cast<long double>(value - exact) / spacing_at(dtype, rounded);
    if (std::abs(off) <= 1) continue;
    return fmt::format("element {} is {}, {} ulp from {}", i, value, static_cast<double>(off),
                       static_cast<double>(rounded));
  }
  return {};
}

Bundle adasum_bundle(DType dtype) {
  return bundle_of(Collective::kAllreduce, dtype, ReduceOp::kAdasum);
}

void check_one(const Rank& rank, DType dtype, std::size_t count, Alike alike, Place place) {
  const Bytes out =
      rank.run_one(adasum_bundle(dtype), inputs_of(rank.rank(), dtype, count, alike), place, count);
  const std::string where = fmt::format("adasum of {} {}", count, to_string(dtype));
  rank.expect_same_bits(out, where);
  if (rank.rank() != 0) return;
  rank.expect_no(far_from(dtype, out, expected_of(rank.size(), dtype, count, alike)), where);
}

/// Tensors of a bundle have dot products of their own, and the bits that they have alone.
void check_fused(const Rank& rank, DType dtype) {
  const std::vector<std::size_t> counts = {13, 0, 1, 257, 2};
  std::vector<Bytes> ins, outs;
  Bundle bundle = adasum_bundle(dtype);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ins.push_back(
        inputs_of(rank.rank(), dtype, counts[i], Alike::kDrawn, static_cast<unsigned>(i)));
    outs.emplace_back(ins[i].size());
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    BundleTensor tensor;
    tensor.in = ins[i].data();
    tensor.out = outs[i].data();
    tensor.shape = {static_cast<std::int64_t>(counts[i])};
    bundle.tensors.push_back(std::move(tensor));
  }
  rank.expect_no(rank.run(bundle).message(), "fused adasum");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Exact wanted =
        expected_of(rank.size(), dtype, counts[i], Alike::kDrawn, static_cast<unsigned>(i));
    rank.expect_no(far_from(dtype, outs[i], wanted), "fused adasum");
    const Bytes alone = rank.run_one(adasum_bundle(dtype), ins[i], Place::kOut, counts[i]);
    rank.expect_no(compare_bytes(outs[i], alone), "fused adasum beside that of one tensor");
  }
}

void check_scaled(const Rank& rank) {
  Bundle bundle = adasum_bundle(DType::kFloat32);
  bundle.prescale = 0.5;
  bundle.postscale = 3;
  const Bytes in = inputs_of(rank.rank(), DType::kFloat32, 13, Alike::kDrawn);
  const Bytes out = rank.run_one(std::move(bundle), in, Place::kIn, 13);
  const Exact wanted = expected_of(rank.size(), DType::kFloat32, 13, Alike::kDrawn);
  rank.expect_no(far_from(DType::kFloat32, out, wanted, 1.5), "scaled adasum");
}

/// The last rank has joined: it adds zeros, and wants no result.
void check_joined(const Rank& rank) {
  constexpr DType kType = DType::kFloat32;
  const bool joined = rank.rank() == rank.size() - 1;
  Bytes values = inputs_of(rank.rank(), kType, 57, Alike::kDrawn);
  Bundle bundle = adasum_bundle(kType);
  BundleTensor tensor;
  if (!joined) tensor.in = tensor.out = values.data();
  tensor.shape = {57};
  bundle.tensors.push_back(std::move(tensor));
  rank.expect_no(rank.run(bundle).message(), "adasum with a joined rank");
  if (joined) return;
  std::vector<Exact> tensors;
  tensors.reserve(static_cast<std::size_t>(rank.size()));
  for (int other = 0; other < rank.size() - 1; ++other) {
    tensors.push_back(exactly(kType, inputs_of(other, kType, 57, Alike::kDrawn)));
  }
  tensors.emplace_back(57);
  rank.expect_no(far_from(kType, values, adasum_of(std::move(tensors))),
                 "adasum with a joined rank");
}

/// Squares of float64 beyond 1e154 are infinite; those of other types are not.
void check_too_large(const Rank& rank) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    Bytes in(2 * size_of(dtype));
    put(dtype, in, 0, dtype == DType::kFloat64 ? 2e154 : 1e38);
    put(dtype, in, 1, 1);
    const Bytes out = rank.run_one(adasum_bundle(dtype), in, Place::kOut, 2);
    CHECK(std::isnan(get(dtype, out, 1)) == (dtype == DType::kFloat64));
  }
}

}  // namespace

void conformance_adasum(ConformanceFixture& fixture) {
  on_ranks(fixture, fixture.mean_rank_counts(), [](const Rank& rank) {
    int turn = 0;
    for (const DType dtype : kTypes) {
      for (const std::size_t count : {0U, 1U, 2U, 13U, 1009U, 20'011U}) {
        const Place place = ++turn % 2 == 0 ? Place::kIn : Place::kOut;
        check_one(rank, dtype, count, Alike::kDrawn, place);
      }
      check_one(rank, dtype, 1009, Alike::kNearlyOpposite, Place::kOut);
      check_one(rank, dtype, 1009, Alike::kZeroAtOdd, Place::kIn);
      check_fused(rank, dtype);
    }
    check_scaled(rank);
    check_joined(rank);
    if (rank.size() == 1) return;  // no dot products spread what one element holds
    check_too_large(rank);
    for (const double odd : {std::nan(""), double{INFINITY}}) {
      Bytes in(4 * sizeof(float));
      for (std::size_t i = 0; i < 4; ++i) put(DType::kFloat32, in, i, 1);
      if (rank.rank() == 0) put(DType::kFloat32, in, 2, odd);
      const Bytes out = rank.run_one(adasum_bundle(DType::kFloat32), in, Place::kOut, 4);
      CHECK(std::isnan(get(DType::kFloat32, out, 0)));
    }
  });
}

}  // namespace ronde::test
