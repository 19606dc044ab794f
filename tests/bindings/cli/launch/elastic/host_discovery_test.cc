#include <doctest/doctest.h>

#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/process.h"
#include "tests/support/contains.h"
#include "tests/timeline/scratch.h"

namespace ronde {
namespace {

using std::chrono::milliseconds;
using test::contains;

/// A discovery by a shell script, driven by an event loop of its own.
class Discovered {
 public:
  explicit Discovered(const std::string& script, milliseconds time_limit = milliseconds(10'000))
      : discovery_({.command = {"sh", "-c", script},
                    .name = "the script",
                    .parse = [](std::string_view text) { return parse_discovered_hosts(text, 3); },
                    .interval = milliseconds(5),
                    .time_limit = time_limit},
                   {.on_hosts = [this](std::vector<HostSlots> hosts) { lists.push_back(hosts); },
                    .say = [this](const std::string& text) { said.push_back(text); }}) {}

  /// Turns until there are so many lists and sentences; false after 20 s.
  bool turn_until(std::size_t list_count, std::size_t said_count) {
    const TimePoint limit = now() + std::chrono::seconds(20);
    while (lists.size() < list_count || said.size() < said_count) {
      if (now() > limit) return false;
      PollSet set;
      discovery_.watch(set);
      set.add(signals_.fd(), POLLIN, [this] {
        while (signals_.next()) discovery_.reap();
      });
      set.wait(std::min(limit, discovery_.deadline()));
      discovery_.on_time(now());
    }
    return true;
  }

  std::vector<std::vector<HostSlots>> lists;
  std::vector<std::string> said;

 private:
  SignalSource signals_;
  HostDiscovery discovery_;
};

}  // namespace

TEST_CASE("host discovery: the list is read again and again") {
  Discovered job("printf 'a:2\\n\\nb\\n'");
  REQUIRE(job.turn_until(3, 0));
  CHECK(job.lists[2] == std::vector<HostSlots>{{"a", 2}, {"b", 3}});
  CHECK(job.said.empty());
}

TEST_CASE("host discovery: no line is a list of no hosts") {
  Discovered job("true");
  REQUIRE(job.turn_until(1, 0));
  CHECK(job.lists[0].empty());
}

TEST_CASE("host discovery: a failure is said once, with the script's last word") {
  const ScratchFolder folder;
  const std::string flag = folder.file("works");
  Discovered job("echo try >> " + folder.file("tries") + "; [ $(wc -l < " + folder.file("tries") +
                 ") -ge 4 ] && echo a:1 && exit 0; echo first >&2; echo no cloud >&2; exit 4");
  REQUIRE(job.turn_until(1, 2));
  REQUIRE(job.said.size() == 2);
  CHECK(job.said[0] ==
        "the script: exited with status 4: no cloud; there are no hosts yet, and it "
        "is tried again");
  CHECK(job.said[1] == "the script lists the hosts again");
}

TEST_CASE("host discovery: output that is no list of hosts is a failure") {
  Discovered job("echo 'a:2 b'");
  REQUIRE(job.turn_until(0, 1));
  CHECK(contains(job.said[0], "line 1: host \"a:2 b\""));
  CHECK(job.lists.empty());
}

TEST_CASE("host discovery: a run that takes too long, or prints without end, is killed") {
  Discovered slow("sleep 1000", milliseconds(50));
  REQUIRE(slow.turn_until(0, 1));
  CHECK(contains(slow.said[0], "did not end"));
  Discovered endless("yes");
  REQUIRE(endless.turn_until(0, 1));
  CHECK(contains(endless.said[0], "printed more than"));
}

TEST_CASE("host discovery: a program that is not there is a failure") {
  std::vector<std::string> said;
  HostDiscovery discovery(
      {.command = {"/no/such/program"}, .name = "it", .parse = {}},
      {.on_hosts = {}, .say = [&](const std::string& text) { said.push_back(text); }});
  discovery.on_time(now());
  REQUIRE(said.size() == 1);
  CHECK(contains(said[0], "cannot run \"/no/such/program\""));
}

}  // namespace ronde
