#include "core/base/os/interfaces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ronde {

TEST_CASE("interfaces: the loopback is there, with its address") {
  const auto all = list_interfaces();
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Interface& each) { return each.name == "lo"; });
  REQUIRE(found != all.end());
  CHECK(found->up);
  CHECK(found->loopback);
  CHECK(found->address.port() == 0);
  CHECK(interface_address("lo")->host() == "127.0.0.1");
}

TEST_CASE("interfaces: an unknown one has no address") {
  CHECK_FALSE(interface_address("nosuch0").has_value());
  CHECK_FALSE(interface_address("").has_value());
}

TEST_CASE("interfaces: a family may be asked for, and a setting may list several") {
  CHECK(interface_address("lo", AF_INET)->host() == "127.0.0.1");
  const auto newer = interface_address("lo", AF_INET6);  // not on every machine
  CHECK((!newer || newer->host() == "::1"));
  CHECK(listed_interfaces("eth0") == std::vector<std::string>{"eth0"});
  CHECK(listed_interfaces("eth0,10.0.0.1,") == std::vector<std::string>{"eth0", "10.0.0.1", ""});
  CHECK(listed_interfaces("") == std::vector<std::string>{""});
}

TEST_CASE("interfaces: one is found by its address, and virtual ones have no speed") {
  const auto found = interface_with(numeric_host("127.0.0.1")->with_port(80));
  REQUIRE(found.has_value());
  CHECK(found->name == "lo");
  CHECK(interface_megabits("lo") == 0);
  CHECK_FALSE(interface_with(*numeric_host("192.0.2.1")).has_value());
}

TEST_CASE("interfaces: the speed is what the kernel tells") {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "ronde-interface-XXXXXX").string();
  const std::filesystem::path folder(::mkdtemp(pattern.data()));
  std::filesystem::create_directories(folder / "lo");
  std::ofstream(folder / "lo" / "speed") << "25000\n";
  CHECK(interface_megabits("lo", folder.string()) == 25'000);
  std::ofstream(folder / "lo" / "speed") << "-1\n";
  CHECK(interface_megabits("lo", folder.string()) == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("interfaces: this host has a name") { CHECK_FALSE(host_name().empty()); }

}  // namespace ronde
