#include "bindings/runtime/group_keys.h"

#include <doctest/doctest.h>

#include <set>

namespace ronde {

TEST_CASE("GroupKeys: members that open the same groups in the same order use the same keys") {
  GroupKeys mine;
  GroupKeys theirs;
  (void)theirs.next({1, 2});  // a group without this rank
  for (int i = 0; i < 3; ++i) CHECK(mine.next({0, 1}) == theirs.next({0, 1}));
}

TEST_CASE("GroupKeys: groups, agreements, devices and the job's exchanges never share a key") {
  GroupKeys keys;
  std::set<std::uint64_t> all = {kSettingsKey};
  std::size_t count = 1;
  const auto add = [&](std::uint64_t key) {
    all.insert(key);
    ++count;
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    add(i);  // a public process set
    add(device_key(i));
    add(job_key(i));
    const std::uint64_t group = keys.next({0, 1});
    add(group);
    add(agreement_key(group));
    add(device_key(group));
  }
  CHECK(all.size() == count);
}

}  // namespace ronde
