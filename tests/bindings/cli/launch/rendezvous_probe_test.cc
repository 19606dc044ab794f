#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "bindings/cli/launch/job.h"

namespace ronde {
namespace {

/// Hosts that have been asked.
struct Asked {
  explicit Asked(int count = 3, bool first_alone = false)
      : probe({.hosts = names(count),
               .interface = "eth0",
               .first_alone = first_alone,
               .say_if_verbose = [this](const std::string& text) { said += text; }}) {}

  static std::vector<std::string> names(int count) {
    std::vector<std::string> hosts;
    for (int i = 0; i < count; ++i) hosts.push_back(fmt::format("n{}", i));
    return hosts;
  }
  Status answer(std::size_t host, const std::string& error = "") {
    return probe.take(host, {error, fmt::format("10.0.0.{}", host), 4000, 5000});
  }

  std::string said;
  RendezvousProbe probe;
};

TEST_CASE(
    "RendezvousProbe: a host is told with whom its ranks connect, that of rank 0 all others") {
  const Asked asked(11);
  CHECK(asked.probe.asked() == 11);
  CHECK(asked.probe.question(0).towards.size() == 10);
  CHECK(asked.probe.question(0).interface == "eth0");
  CHECK(asked.probe.question(1).towards == std::vector<std::string>{"n9", "n10", "n0"});
  CHECK(asked.probe.question(10).towards == std::vector<std::string>{"n1"});
  CHECK(Asked(1).probe.question(0).interface.empty());
}

TEST_CASE("RendezvousProbe: it is complete once each host has answered") {
  Asked asked;
  CHECK(asked.answer(2).ok());
  CHECK(asked.answer(0).ok());
  CHECK(asked.answer(0).ok());  // again
  CHECK_FALSE(asked.probe.complete());
  CHECK(asked.probe.has_answer(0));
  CHECK_FALSE(asked.probe.has_answer(1));
  CHECK(asked.answer(1).ok());
  REQUIRE(asked.probe.complete());
  const std::vector<Rendezvous> places = asked.probe.places();
  REQUIRE(places.size() == 3);
  CHECK(places[2].address == "10.0.0.2");
}

TEST_CASE("RendezvousProbe: where a host does not know its address, rank 0's place is left") {
  Asked asked;
  CHECK(asked.answer(0).ok());
  CHECK(asked.answer(1, "cannot resolve \"n0\"").ok());
  CHECK(asked.answer(2).ok());
  REQUIRE(asked.probe.places().size() == 1);
  CHECK(asked.said == "n1: cannot resolve \"n0\": all ranks meet at rank 0");
}

TEST_CASE("RendezvousProbe: the job ends where rank 0's host does not know its address") {
  Asked asked;
  CHECK(asked.answer(0, "no route").message() == "no route");
}

TEST_CASE("RendezvousProbe: under mpirun the first host alone is asked") {
  Asked asked(3, true);
  CHECK(asked.probe.asked() == 1);
  CHECK(asked.probe.question(0).towards.size() == 2);
  CHECK(asked.answer(1).ok());  // nobody has asked it
  CHECK_FALSE(asked.probe.has_answer(1));
  CHECK(asked.answer(0).ok());
  CHECK(asked.probe.complete());
}

}  // namespace
}  // namespace ronde
