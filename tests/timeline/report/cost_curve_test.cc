#include "timeline/report/cost_curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ronde::report {
namespace {

struct Bundles {
  std::vector<double> bytes;
  std::vector<double> ns;

  void add(int times, double size, double start_ns, double ns_per_byte, double jitter = 0.1) {
    std::normal_distribution<double> noise(1, jitter);
    for (int i = 0; i < times; ++i) {
      bytes.push_back(size);
      ns.push_back((start_ns + ns_per_byte * size) * std::max(0.1, noise(random)));
    }
  }

  std::mt19937 random{7};
};

}  // namespace

TEST_CASE("cost curve: what was planted is found, within two of the errors that it tells") {
  Bundles bundles;
  for (const double size : {3e4, 1e5, 3e5, 1e6}) bundles.add(50, size, 200e3, 4);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  REQUIRE(curve.known);
  for (const double size : {0.0, 5e4, 5e5, 2e6}) {
    const Estimate cost = cost_at(curve, size);
    CHECK(std::abs(cost.ns - 200e3 - 4 * size) < 2 * cost.error);
    CHECK(cost.error < 0.1 * cost.ns);
  }
  CHECK(curve.ns_per_byte == doctest::Approx(4).epsilon(0.1));
}

TEST_CASE("cost curve: between sizes that fit into a packet bytes cost nothing") {
  Bundles bundles;
  bundles.add(500, 4, 100e3, 0);
  bundles.add(50, 40, 1000e3, 0);  // held up for other reasons
  bundles.add(50, 1e6, 1000e3, 0.1);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  REQUIRE(curve.known);
  CHECK(cost_at(curve, 4).ns - cost_at(curve, 2).ns < 1e3);
  CHECK(cost_at(curve, 4).ns == doctest::Approx(100e3).epsilon(0.1));
}

TEST_CASE("cost curve: what a bundle saves against one like it is known better than either") {
  Bundles bundles;
  for (const double size : {3e4, 1e6}) bundles.add(50, size, 200e3, 0.01, 0.5);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  CostSum saved(curve);
  saved.add(100, 1e5);
  saved.add(-100, 9e4);
  CHECK(saved.total().error < 0.02 * 100 * cost_at(curve, 1e5).error);
  CHECK(saved.total().ns ==
        doctest::Approx(100 * (cost_at(curve, 1e5).ns - cost_at(curve, 9e4).ns)));
}

TEST_CASE("cost curve: a few bundles that were held up long change nothing") {
  Bundles bundles;
  for (const double size : {3e4, 1e5, 3e5, 1e6}) bundles.add(50, size, 200e3, 4);
  for (const double size : {3e4, 1e5}) bundles.add(3, size, 60e6, 0);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  CHECK(cost_at(curve, 0).ns == doctest::Approx(200e3).epsilon(0.2));
  CHECK(cost_at(curve, 5e5).ns == doctest::Approx(2.2e6).epsilon(0.1));
}

TEST_CASE("cost curve: what a link lets pass at once costs little, what is more its bytes") {
  Bundles bundles;
  for (const double size : {3e4, 6e4}) bundles.add(50, size, 100e3, 0.5, 0.02);
  for (const double size : {2.5e5, 5e5}) bundles.add(50, size, 0, 8, 0.02);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  CHECK(cost_at(curve, 2.5e5).ns == doctest::Approx(2e6).epsilon(0.05));
  CHECK(cost_at(curve, 3e4).ns == doctest::Approx(115e3).epsilon(0.05));
  CHECK(cost_at(curve, 3e6).ns == doctest::Approx(24e6).epsilon(0.1));
}

TEST_CASE("cost curve: small bundles whose bytes do not count cost as much when larger") {
  Bundles bundles;
  for (const double size : {500, 1000, 2000, 4000}) bundles.add(50, size, 100e3, 0);
  const CostCurve curve = fit_costs(bundles.bytes, bundles.ns);
  CHECK(curve.known);
  CHECK(cost_at(curve, 3000).ns == doctest::Approx(100e3).epsilon(0.1));
  CHECK(curve.start_ns == doctest::Approx(100e3).epsilon(0.1));
}

TEST_CASE("cost curve: bundles of about one size tell nothing of others, nor do none") {
  Bundles bundles;
  bundles.add(50, 1.0e5, 200e3, 4);
  bundles.add(50, 1.3e5, 200e3, 4);
  CHECK(!fit_costs(bundles.bytes, bundles.ns).known);
  CHECK(!fit_costs({}, {}).known);
}

}  // namespace ronde::report
