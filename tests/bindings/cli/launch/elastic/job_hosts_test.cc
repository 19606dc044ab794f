#include "bindings/cli/launch/elastic/job_hosts.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("job hosts: the job starts once there are enough slots") {
  JobHosts hosts(3);
  JobHosts::Update update = hosts.set({{"a", 2}});
  CHECK_FALSE(update.news);
  CHECK(update.text == "waiting for 3 slots to start: the hosts have 2 (a:2)");
  update = hosts.set({{"a", 2}});
  CHECK_FALSE(update.news);
  CHECK(update.text.empty());
  CHECK_FALSE(hosts.started());
  update = hosts.set({{"a", 2}, {"b", 1}});
  CHECK(update.news);
  CHECK(update.text.empty());
  CHECK(hosts.started());
  CHECK(hosts.all().back().name == "b");
}

TEST_CASE("job hosts: later only a change is news, also one to fewer slots") {
  JobHosts hosts(2);
  REQUIRE(hosts.set({{"a", 2}}).news);
  CHECK_FALSE(hosts.set({{"a", 2}}).news);
  const JobHosts::Update update = hosts.set({{"b", 1}});
  CHECK(update.news);
  CHECK(update.text == "the hosts are now b:1");
  CHECK(hosts.slots("b") == 1);
  CHECK(hosts.slots("a") == 0);
  CHECK_FALSE(hosts.lists("a"));
  CHECK(hosts.set({}).text == "the hosts are now none");
}

}  // namespace ronde
