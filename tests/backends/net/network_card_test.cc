#include "backends/net/network_card.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ronde::net {
namespace {

Endpoint loopback() {
  auto endpoint = numeric_host("127.0.0.1");
  REQUIRE(endpoint.ok());
  return *endpoint;
}

}  // namespace

TEST_CASE("network card: it is found by its address, and virtual ones have no speed") {
  const NetworkCard card = card_of(loopback());
  CHECK(card.name == "lo");
  CHECK(card.megabits == 0);
}

TEST_CASE("network card: its speed is what the kernel tells") {
  std::string pattern = (std::filesystem::temp_directory_path() / "ronde-card-XXXXXX").string();
  const std::filesystem::path folder(::mkdtemp(pattern.data()));
  std::filesystem::create_directories(folder / "lo");
  std::ofstream(folder / "lo" / "speed") << "25000\n";
  CHECK(card_of(loopback(), folder.string()).megabits == 25'000);
  std::ofstream(folder / "lo" / "speed") << "-1\n";
  CHECK(card_of(loopback(), folder.string()).megabits == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("network card: an address of no card here has none") {
  auto elsewhere = numeric_host("192.0.2.1");
  REQUIRE(elsewhere.ok());
  CHECK(card_of(*elsewhere).name.empty());
}

}  // namespace ronde::net
