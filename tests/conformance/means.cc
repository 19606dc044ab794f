// Conformance: averages. The mean of equal values is that value, and others are near the exact one.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

/// The distance of two finite numbers, in the spacing of numbers at `exact`.
template <typename T>
double ulps(T got, long double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  const int spacing = std::max(exponent - std::numeric_limits<T>::digits, least);
  return static_cast<double>(std::ldexp(std::abs(static_cast<long double>(got) - exact), -spacing));
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

/// Four significands of every exponent but the `spare` highest, of both signs.
template <typename T, typename Bits>
std::vector<T> values_of_every_exponent(int spare) {
  constexpr int kSignificand = std::numeric_limits<T>::digits - 1;
  const int exponents = 2 * std::numeric_limits<T>::max_exponent - 1 - spare;
  std::mt19937_64 random(1);
  std::vector<T> values;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int i = 0; i < 4; ++i) {
      const Bits tail = i == 0 ? 0 : static_cast<Bits>(random()) & ((Bits{1} << kSignificand) - 1);
      values.push_back(std::bit_cast<T>((static_cast<Bits>(exponent) << kSignificand) | tail));
      values.push_back(-values.back());
    }
  }
  return values;
}

template <typename T>
std::string compare_means(const Bytes& bytes, const std::vector<long double>& exact, double most) {
  for (std::size_t i = 0; i < exact.size(); ++i) {
    T got;
    std::memcpy(&got, bytes.data() + i * sizeof(T), sizeof(T));
    if (ulps(got, exact[i]) <= most) continue;
    return fmt::format("element {} is {:a}, which is {} ulp from the mean", i, got,
                       ulps(got, exact[i]));
  }
  return {};
}

template <typename T, typename Bits>
void check_equal(const Rank& rank, DType dtype, double most) {
  const bool may_overflow = most > 0 || std::is_same_v<T, double>;  // the sum of eight
  const auto values = values_of_every_exponent<T, Bits>(may_overflow ? 3 : 0);
  const std::vector<long double> exact(values.begin(), values.end());
  for (const Collective kind : {Collective::kAllreduce, Collective::kReduce}) {
    const Bytes out = rank.run_one(bundle_of(kind, dtype, ReduceOp::kAverage), bytes_of(values),
                                   Place::kIn, values.size());
    const std::string where = fmt::format("{} of equal {}", to_string(kind), to_string(dtype));
    rank.expect_no(compare_means<T>(out, exact, most), where);
    if (kind == Collective::kAllreduce) rank.expect_same_bits(out, where);
  }
}

/// Positive values of a rank, over eight exponents.
template <typename T>
std::vector<T> drawn(int rank, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 7);
  std::uniform_real_distribution<T> exponents(-4, 4);
  std::vector<T> values(count);
  for (T& value : values) value = std::exp2(exponents(random));
  return values;
}

template <typename T>
void check_drawn(const Rank& rank, DType dtype, std::size_t count, double most) {
  std::vector<long double> exact(count);
  for (int other = 0; other < rank.size(); ++other) {
    const auto values = drawn<T>(other, count);
    for (std::size_t i = 0; i < count; ++i) exact[i] += static_cast<long double>(values[i]);
  }
  for (long double& sum : exact) sum /= rank.size();
  const Bytes out = rank.run_one(bundle_of(Collective::kAllreduce, dtype, ReduceOp::kAverage),
                                 bytes_of(drawn<T>(rank.rank(), count)), Place::kOut, count);
  rank.expect_no(compare_means<T>(out, exact, most),
                 fmt::format("mean of {} {}", count, to_string(dtype)));
}

/// All values of a type of 8 or 16 bits but infinities and NaN.
Bytes every_value(DType dtype) {
  const std::size_t width = size_of(dtype);
  Bytes all;
  for (std::uint32_t bits = 0; bits < 1U << (8 * width); ++bits) {
    Bytes one(width);
    std::memcpy(one.data(), &bits, width);
    if (std::isfinite(get(dtype, one, 0))) all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void check_narrow(const Rank& rank, DType dtype) {
  const Bytes all = every_value(dtype);
  const Bytes out = rank.run_one(bundle_of(Collective::kAllreduce, dtype, ReduceOp::kAverage), all,
                                 Place::kOut, all.size() / size_of(dtype));
  rank.expect_no(compare_bytes(out, all), fmt::format("every {}", to_string(dtype)));
}

/// Ranks hold the largest and the least values and some between; means are truncated.
void check_integers(const Rank& rank, DType dtype, double least, double most) {
  const double pairs[][2] = {{most, most}, {least, least}, {7, 0}, {least == 0 ? 5.0 : -7.0, 0},
                             {most, 3},    {least, 3},     {1, 1}, {most, least}};
  Bytes in(std::size(pairs) * size_of(dtype));
  Bytes wanted(in.size());
  for (std::size_t i = 0; i < std::size(pairs); ++i) {
    put(dtype, in, i, pairs[i][rank.rank() % 2]);
    const int second = rank.size() / 2;
    const double sum = (rank.size() - second) * pairs[i][0] + second * pairs[i][1];
    put(dtype, wanted, i, std::trunc(sum / rank.size()));
  }
  const Bytes out = rank.run_one(bundle_of(Collective::kAllreduce, dtype, ReduceOp::kAverage), in,
                                 Place::kOut, std::size(pairs));
  rank.expect_no(compare_bytes(out, wanted), fmt::format("mean of {}", to_string(dtype)));
}

template <typename T>
void check_integers(const Rank& rank, DType dtype) {
  // Sums of eight int32 and int64 must not overflow.
  const int shift = sizeof(T) < 4 ? 0 : sizeof(T) == 4 ? 3 : 14;
  check_integers(rank, dtype, static_cast<double>(std::numeric_limits<T>::min() >> shift),
                 static_cast<double>(std::numeric_limits<T>::max() >> shift));
}

}  // namespace

void conformance_means(ConformanceFixture& fixture) {
  const double equal = fixture.mean_ulps();
  const double others = equal < 2 ? std::max(1.0, 1.5 * equal) : 4;
  on_ranks(fixture, fixture.mean_rank_counts(), [&](const Rank& rank) {
    check_equal<float, std::uint32_t>(rank, DType::kFloat32, equal);
    check_equal<double, std::uint64_t>(rank, DType::kFloat64, equal);
    for (const std::size_t count : {1U, 13U, 9001U}) {
      check_drawn<float>(rank, DType::kFloat32, count, others);
      check_drawn<double>(rank, DType::kFloat64, count, others);
    }
    for (const DType dtype :
         {DType::kFloat16, DType::kBfloat16, DType::kFloat8E4m3, DType::kFloat8E5m2, DType::kInt8,
          DType::kUint8, DType::kInt16, DType::kUint16}) {
      check_narrow(rank, dtype);
    }
    check_integers<std::int8_t>(rank, DType::kInt8);
    check_integers<std::uint8_t>(rank, DType::kUint8);
    check_integers<std::int16_t>(rank, DType::kInt16);
    check_integers<std::int32_t>(rank, DType::kInt32);
    check_integers<std::int64_t>(rank, DType::kInt64);
    check_integers<std::uint16_t>(rank, DType::kUint16);
    check_integers<std::uint32_t>(rank, DType::kUint32);
    check_integers<std::uint64_t>(rank, DType::kUint64);
  });
}

}  // namespace ronde::test
