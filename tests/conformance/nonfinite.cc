// Conformance: the first value that is not finite is found, and whose it is, on all ranks alike.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/conformance/rank.h"

namespace ronde::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A value in a tensor of one rank.
struct Planted {
  int rank = 0;
  std::size_t tensor = 0;
  std::size_t element = 0;
  double value = kNan;
};

/// Reductions of `counts.size()` tensors in one bundle, in which values are planted.
class Garden {
 public:
  Garden(const Rank& rank, Bundle bundle, std::vector<std::size_t> counts, Place place)
      : rank_(rank), bundle_(std::move(bundle)), counts_(std::move(counts)), place_(place) {}

  /// The findings by tensor. A rank that has joined takes part without memory.
  std::vector<NonfiniteFinding> run(const std::vector<Planted>& planted, bool joined = false) {
    std::vector<NonfiniteFinding> found(counts_.size());
    std::vector<Bytes> ins;
    for (const std::size_t count : counts_) {
      ins.push_back(operands(bundle_.op, bundle_.dtype, rank_.rank(), count));
    }
    for (const Planted& one : planted) {
      if (one.rank == rank_.rank()) put(bundle_.dtype, ins[one.tensor], one.element, one.value);
    }
    std::vector<Bytes> outs = ins;
    bundle_.tensors.clear();
    for (std::size_t i = 0; i < ins.size(); ++i) {
      BundleTensor tensor;
      tensor.name = "tensor";
      tensor.shape = {static_cast<std::int64_t>(counts_[i])};
      const bool reads = rank_.rank() == bundle_.root || !traits_of(bundle_.kind).rooted();
      if (!joined) tensor.in = place_ == Place::kIn ? outs[i].data() : ins[i].data();
      if (!joined && reads) tensor.out = outs[i].data();
      if (!joined) tensor.finding = &found[i];
      bundle_.tensors.push_back(tensor);
    }
    const Status status = rank_.run(bundle_);
    if (!status.ok()) FAIL("rank " << rank_.rank() << ": " << status.to_string());
    return found;
  }

  /// Fails unless the finding is `wanted`; null: nothing was found.
  void expect(const NonfiniteFinding& found, const Planted* wanted) const {
    const std::string where =
        fmt::format("{} {} of {} {}", to_string(bundle_.kind), to_string(bundle_.op), counts_[0],
                    to_string(bundle_.dtype));
    const OddValue& odd = found.odd;
    const std::string got = odd.exists() ? fmt::format("rank {}, element {}", odd.rank, odd.element)
                                         : std::string("nothing");
    const std::string should =
        wanted == nullptr ? std::string("nothing")
                          : fmt::format("rank {}, element {}", wanted->rank, wanted->element);
    rank_.expect_no(got == should ? "" : fmt::format("found {}, not {}", got, should), where);
    if (wanted == nullptr) return;
    CHECK(std::isnan(odd.value) == std::isnan(wanted->value));
    if (std::isinf(wanted->value)) CHECK(odd.value == wanted->value);
    CHECK(found.reports == (rank_.rank() == 0));
  }

 private:
  const Rank& rank_;
  Bundle bundle_;
  const std::vector<std::size_t> counts_;
  const Place place_;
};

/// One drawn place in a tensor, and another after it. Drawn alike on all ranks.
class Draws {
 public:
  explicit Draws(const Rank& rank) : ranks_(rank.size()) {}

  Planted place(std::size_t tensor, std::size_t count, double value) {
    return {below(ranks_), tensor, static_cast<std::size_t>(below(static_cast<int>(count))), value};
  }
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

 private:
  std::mt19937 random_{49};
  const int ranks_;
};

void check_one(const Rank& rank, Draws& draws, const Bundle& bundle, std::size_t count,
               Place place) {
  Garden garden(rank, bundle, {count}, place);
  garden.expect(garden.run({})[0], nullptr);
  const bool ordered = bundle.op == ReduceOp::kMin || bundle.op == ReduceOp::kMax;
  const bool finite_only = ordered || bundle.dtype == DType::kFloat8E4m3;
  const double value =
      finite_only
          ? kNan
          : std::array{kNan, kInfinity, -kInfinity}[static_cast<std::size_t>(draws.below(3))];
  const Planted first = draws.place(0, count, value);
  Planted later = first;
  later.element += (count - first.element) / 2;
  later.rank = later.element > first.element ? draws.below(rank.size()) : first.rank;
  if (later.element == first.element) later.value = value;
  garden.expect(garden.run({first, later})[0], &first);
  garden.expect(garden.run({})[0], nullptr);
}

void check_ops(const Rank& rank, Draws& draws, DType dtype, std::size_t count, Place place) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    check_one(rank, draws, bundle_of(Collective::kAllreduce, dtype, op), count, place);
  }
  Bundle scaled = bundle_of(Collective::kAllreduce, dtype);
  scaled.prescale = 0.5;
  scaled.postscale = 0.25;
  check_one(rank, draws, scaled, count, place);
  for (int root = 0; root < std::min(rank.size(), 2); ++root) {
    check_one(rank, draws, bundle_of(Collective::kReduce, dtype, ReduceOp::kSum, root), count,
              place);
  }
  check_one(rank, draws, bundle_of(Collective::kReduceScatter, dtype), count, place);
}

/// A tensor is not blamed for its neighbours.
void check_fused(const Rank& rank, Draws& draws, std::size_t count, Place place) {
  const std::vector<std::size_t> counts = {count, 7, count + 3, count};
  const Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
  Garden garden(rank, bundle, counts, place);
  const Planted second = draws.place(1, counts[1], -kInfinity);
  const Planted last = draws.place(3, counts[3], kNan);
  const auto found = garden.run({last, second});
  garden.expect(found[0], nullptr);
  garden.expect(found[1], &second);
  garden.expect(found[2], nullptr);
  garden.expect(found[3], &last);
}

/// The lowest rank is named where several have one in the same place.
void check_tie(const Rank& rank, std::size_t count) {
  Garden garden(rank, bundle_of(Collective::kAllreduce, DType::kFloat32), {count}, Place::kIn);
  std::vector<Planted> all;
  for (int r = rank.size() - 1; r >= rank.size() / 2; --r) all.push_back({r, 0, count - 1, kNan});
  garden.expect(garden.run(all)[0], &all.back());
}

/// Values at the ends of the type's range raise no alarm; a sum beyond it has no culprit.
void check_range(const Rank& rank, DType dtype, double largest, double smallest,
                 std::size_t count) {
  Garden garden(rank, bundle_of(Collective::kAllreduce, dtype, ReduceOp::kMax), {count},
                Place::kOut);
  std::vector<Planted> extremes;
  for (int r = 0; r < rank.size(); ++r) {
    extremes.push_back({r, 0, 0, largest});
    extremes.push_back({r, 0, count / 2, smallest});
    extremes.push_back({r, 0, count - 1, -largest});
  }
  garden.expect(garden.run(extremes)[0], nullptr);
  if (rank.size() == 1) return;
  Garden sums(rank, bundle_of(Collective::kAllreduce, dtype), {count}, Place::kIn);
  const auto found = sums.run({{0, 0, count - 1, largest}, {1, 0, count - 1, largest}})[0];
  CHECK(found.odd.element == static_cast<std::int64_t>(count - 1));
  CHECK(found.odd.rank == -1);
}

/// A rank that has joined has no inputs, outputs or findings. The first of the others reports.
void check_joined(const Rank& rank, std::size_t count) {
  if (rank.size() == 1) return;
  const bool joined = rank.rank() == 0;
  const int last = rank.size() - 1;
  Garden garden(rank, bundle_of(Collective::kAllreduce, DType::kFloat32), {count}, Place::kIn);
  const auto found = garden.run({{last, 0, count / 2, kNan}}, joined)[0];
  CHECK(found.exists() == !joined);
  if (joined) return;
  CHECK(found.odd.rank == last);
  CHECK(found.reports == (rank.rank() == 1));
}

}  // namespace

void conformance_nonfinite(ConformanceFixture& fixture) {
  on_watching_ranks(fixture, [](const Rank& rank) {
    Draws draws(rank);
    for (const std::size_t count : {1U, 1009U, 20'011U}) {
      for (const DType dtype : all_dtypes()) {
        if (!is_floating(dtype)) continue;
        check_ops(rank, draws, dtype, count, draws.below(2) == 0 ? Place::kIn : Place::kOut);
      }
      check_fused(rank, draws, count, draws.below(2) == 0 ? Place::kIn : Place::kOut);
      check_tie(rank, count);
      check_joined(rank, count);
      if (count == 1) continue;
      check_range(rank, DType::kFloat32, std::numeric_limits<float>::max(), 1e-45, count);
      check_range(rank, DType::kFloat64, std::numeric_limits<double>::max(), 5e-324, count);
      check_range(rank, DType::kFloat16, 65504, 6e-8, count);
    }
    for (const Place place : {Place::kIn, Place::kOut}) {
      check_one(rank, draws, bundle_of(Collective::kAllreduce, DType::kFloat32), 700'001, place);
      check_fused(rank, draws, 300'007, place);
    }
  });
}

}  // namespace ronde::test
