#include "bindings/cli/launch/rendezvous_probe.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

namespace ronde {
namespace {

/// Three hosts that have been asked.
struct Asked {
  Asked() {
    for (int i = 0; i < 3; ++i) options.hosts.push_back({fmt::format("n{}", i), i, 1});
    hosts = hosts_of(options.hosts);
  }

  Status answer(std::size_t host, const std::string& error = "") {
    const ProbedMessage message{error, fmt::format("10.0.0.{}", host), 4000, 5000};
    return probe.take(hosts[host], {FrameType::kProbed, encode_wire<std::string>(message)});
  }

  LaunchOptions options;
  std::vector<Host> hosts;
  std::string said;
  RendezvousProbe probe{options, hosts, [this](const std::string& text) { said += text; }};
};

TEST_CASE("RendezvousProbe: it is complete once each host has answered") {
  Asked asked;
  CHECK_FALSE(asked.probe.sent());
  asked.probe.send();
  CHECK(asked.answer(2).ok());
  CHECK(asked.answer(0).ok());
  CHECK(asked.answer(0).ok());  // again
  CHECK_FALSE(asked.probe.complete());
  CHECK(asked.probe.has_answer(asked.hosts[0]));
  CHECK_FALSE(asked.probe.has_answer(asked.hosts[1]));
  CHECK(asked.answer(1).ok());
  REQUIRE(asked.probe.complete());
  const std::vector<Rendezvous> places = asked.probe.places();
  REQUIRE(places.size() == 3);
  CHECK(places[2].address == "10.0.0.2");
}

TEST_CASE("RendezvousProbe: where a host does not know its address, rank 0's place is left") {
  Asked asked;
  asked.probe.send();
  CHECK(asked.answer(0).ok());
  CHECK(asked.answer(1, "cannot resolve \"n0\"").ok());
  CHECK(asked.answer(2).ok());
  REQUIRE(asked.probe.places().size() == 1);
  CHECK(asked.said == "n1: cannot resolve \"n0\": all ranks meet at rank 0");
}

TEST_CASE("RendezvousProbe: the job ends where rank 0's host does not know its address") {
  Asked asked;
  asked.probe.send();
  CHECK(asked.answer(0, "no route").message() == "no route");
}

TEST_CASE("RendezvousProbe: under mpirun the first host alone is asked") {
  Asked asked;
  asked.options.through_mpirun = true;
  asked.probe.send();
  CHECK(asked.answer(0).ok());
  CHECK(asked.probe.complete());
}

}  // namespace
}  // namespace ronde
