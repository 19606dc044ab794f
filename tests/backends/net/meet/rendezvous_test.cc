#include "backends/net/meet/rendezvous.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

Introduction on_host(int host, int pid) {
  return {"1", fmt::format("node{}", host), fmt::format("identity of node{}", host),
          fmt::format("10.0.0.{}:4000", host), pid};
}

TEST_CASE("a roster arrives as it was sent, with the facts of each rank's host") {
  Roster roster;
  for (int rank = 0; rank < 6; ++rank) roster[rank] = on_host(rank / 2, 100 + rank);
  const auto got = decode_verdict(encode_verdict(roster));
  REQUIRE(got.ok());
  REQUIRE(got->size() == 6);
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(encode_wire(got->at(rank)) == encode_wire(roster[rank]));
  }
}

TEST_CASE("the facts of a host travel once") {
  Roster roster;
  for (int rank = 0; rank < 64; ++rank) roster[rank] = on_host(0, rank);
  const std::string bytes = encode_verdict(roster);
  CHECK(bytes.find("identity of node0") == bytes.rfind("identity of node0"));
}

TEST_CASE("an error arrives with its code, text and rank") {
  const auto got = decode_verdict(
      encode_verdict(Status(Code::kTimeout, "rank 3 did not come").about({3, "node1", 17})));
  CHECK(got.status().code() == Code::kTimeout);
  CHECK(got.status().message() == "rank 3 did not come");
  REQUIRE(got.status().failed_rank());
  CHECK(got.status().failed_rank()->rank == 3);
}

TEST_CASE("a verdict that is cut short is an error") {
  const std::string bytes = encode_verdict(Roster{{0, on_host(0, 1)}});
  CHECK(decode_verdict(bytes.substr(0, bytes.size() - 1)).status().code() == Code::kInternal);
}

}  // namespace
}  // namespace ronde::net
