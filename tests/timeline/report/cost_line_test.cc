#include "timeline/report/cost_line.h"

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

TEST_CASE("cost line: what was planted is found, within two of the errors that it tells") {
  Bundles bundles;
  for (const double size : {3e4, 1e5, 3e5, 1e6}) bundles.add(50, size, 200e3, 4);
  const CostLine line = fit_costs(bundles.bytes, bundles.ns);
  CHECK(line.known);
  CHECK(line.start_error < 30e3);
  CHECK(line.byte_error < 0.4);
  CHECK(std::abs(line.start_ns - 200e3) < 2 * line.start_error);
  CHECK(std::abs(line.ns_per_byte - 4) < 2 * line.byte_error);
}

TEST_CASE("cost line: a few bundles that were held up long change nothing") {
  Bundles bundles;
  for (const double size : {3e4, 1e5, 3e5, 1e6}) bundles.add(50, size, 200e3, 4);
  for (const double size : {3e4, 1e5}) bundles.add(3, size, 60e6, 0);
  const CostLine line = fit_costs(bundles.bytes, bundles.ns);
  CHECK(line.start_ns == doctest::Approx(200e3).epsilon(0.2));
  CHECK(line.ns_per_byte == doctest::Approx(4).epsilon(0.1));
}

TEST_CASE("cost line: small bundles whose bytes do not count tell what one takes to start") {
  Bundles bundles;
  for (const double size : {500, 1000, 2000, 4000}) bundles.add(50, size, 100e3, 0);
  const CostLine line = fit_costs(bundles.bytes, bundles.ns);
  CHECK(line.known);
  CHECK(line.start_ns == doctest::Approx(100e3).epsilon(0.1));
  CHECK(line.ns_per_byte < 2 * line.byte_error + 1e-9);
}

TEST_CASE("cost line: bundles of about one size tell nothing, nor do none") {
  Bundles bundles;
  bundles.add(50, 1.0e5, 200e3, 4);
  bundles.add(50, 1.3e5, 200e3, 4);
  CHECK(!fit_costs(bundles.bytes, bundles.ns).known);
  CHECK(!fit_costs({}, {}).known);
}

TEST_CASE("cost line: times that follow no line have errors that say so") {
  Bundles straight;
  for (const double size : {1e5, 2e5, 4e5}) straight.add(50, size, 0, 4, 0.01);
  Bundles bent = straight;
  bent.add(50, 8e5, 9e6, 4, 0.01);
  const CostLine line = fit_costs(bent.bytes, bent.ns);
  CHECK(line.byte_error > 5 * fit_costs(straight.bytes, straight.ns).byte_error);
}

}  // namespace ronde::report
