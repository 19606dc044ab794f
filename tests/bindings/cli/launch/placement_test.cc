#include "bindings/cli/launch/placement.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace ronde {
namespace {

cpu_set_t cpus(std::initializer_list<std::size_t> list) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::size_t cpu : list) CPU_SET(cpu, &set);
  return set;
}

}  // namespace

TEST_CASE("placement: OpenMP threads share the cores, at least one each") {
  CHECK(omp_threads(8, 2) == 4);
  CHECK(omp_threads(2, 2) == 1);
  CHECK(omp_threads(2, 5) == 1);
}

TEST_CASE("placement: one node means no binding") {
  CHECK_FALSE(cpus_for(0, 2, {cpus({0, 1, 2, 3})}).has_value());
  CHECK_FALSE(cpus_for(0, 2, {}).has_value());
}

TEST_CASE("placement: ranks are spread over the nodes in order") {
  const std::vector<cpu_set_t> nodes = {cpus({0, 1}), cpus({2, 3})};
  for (int rank = 0; rank < 4; ++rank) {
    const auto bound = cpus_for(rank, 4, nodes);
    REQUIRE(bound.has_value());
    CHECK(CPU_EQUAL(&*bound, &nodes[static_cast<std::size_t>(rank / 2)]));
  }
}

TEST_CASE("placement: more ranks than cores are left to the scheduler, and so is a lone one") {
  const std::vector<cpu_set_t> nodes = {cpus({0, 1}), cpus({2, 3})};
  CHECK_FALSE(cpus_for(0, 5, nodes).has_value());
  CHECK_FALSE(cpus_for(0, 1, nodes).has_value());
}

TEST_CASE("placement: the nodes hold all cores that this process may use") {
  const cpu_set_t allowed = allowed_cpus();
  const std::vector<cpu_set_t> nodes = numa_nodes(allowed);
  int total = 0;
  for (const cpu_set_t& node : nodes) total += CPU_COUNT(&node);
  CHECK((nodes.empty() || total == CPU_COUNT(&allowed)));
}

}  // namespace ronde
