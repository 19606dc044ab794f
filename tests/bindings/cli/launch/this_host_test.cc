#include "bindings/cli/launch/this_host.h"

#include <doctest/doctest.h>

#include <initializer_list>

#include "core/base/os/interfaces.h"

namespace ronde {

TEST_CASE("network: this host is known by its names and addresses") {
  CHECK(is_this_host("localhost"));
  CHECK(is_this_host("127.0.0.1"));
  CHECK(is_this_host("127.0.0.2"));
  CHECK(is_this_host(host_name()));
  CHECK_FALSE(is_this_host("192.0.2.1"));
  CHECK_FALSE(is_this_host("no-such-host.invalid"));
}

TEST_CASE("network: an interface is found by name and by address") {
  CHECK(*chosen_address("lo") == "127.0.0.1");
  CHECK(*chosen_address("127.0.0.1") == "127.0.0.1");
}

TEST_CASE("network: an unknown interface is an error that lists those there are") {
  const auto address = chosen_address("nosuch0");
  CHECK(address.status().message().find("nosuch0") != std::string::npos);
  CHECK(address.status().message().find("lo") != std::string::npos);
}

TEST_CASE("network: packets to oneself leave from oneself") {
  CHECK(*address_towards("127.0.0.1") == "127.0.0.1");
  CHECK_FALSE(address_towards("no-such-host.invalid").ok());
}

TEST_CASE("network: a free port lies below those the kernel gives out by itself") {
  const auto port = free_port("127.0.0.1");
  REQUIRE(port.ok());
  CHECK(*port >= 20000);
  CHECK(*port < 32768);
}

TEST_CASE("network: IPv6 addresses are bracketed before a port") {
  CHECK(join_host_port("10.0.0.1", 5) == "10.0.0.1:5");
  CHECK(join_host_port("::1", 5) == "[::1]:5");
}

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
