#include "bindings/cli/launch/ssh.h"

#include <doctest/doctest.h>

#include "tests/timeline/scratch.h"

namespace ronde {

TEST_CASE("trace fetch: only ranks of other hosts whose file is not here are asked for") {
  const ScratchFolder scratch;
  const std::vector<HostRanks> hosts = {{"", 0, 1}, {"b", 1, 2}, {"c", 3, 1}};
  const std::vector<std::string> paths = {scratch.file("0"), scratch.write("1", "x"),
                                          scratch.file("2"), scratch.write("3", "x")};
  const auto elsewhere = files_elsewhere(hosts, paths);
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere[0].host == "b");
  CHECK(elsewhere[0].paths == std::vector<std::string>{paths[2]});
}

TEST_CASE("trace fetch: a host that cannot be reached is an error that names it") {
  const ScratchFolder scratch;
  SshOptions ssh;
  ssh.options = {"ConnectTimeout=1"};
  const Status status = fetch_files(ssh, "no-such-host.invalid", {scratch.file("x")});
  CHECK(status.code() == Code::kUnavailable);
}

}  // namespace ronde
