#include "bindings/runtime/groups/process_set_table.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("ProcessSetTable: the global set is there from the start and ids are not used twice") {
  ProcessSetTable sets(3);
  CHECK(*sets.ranks(kGlobalSet) == std::vector<int>{0, 1, 2});
  CHECK(sets.add({0, 2}) == 1);
  sets.remove(1);
  CHECK_FALSE(sets.ranks(1).ok());
  sets.skip();
  CHECK(sets.next() == 3);
  CHECK(sets.add({0, 2}) == 3);
  CHECK(sets.ids() == std::vector<SetId>{0, 3});
}

TEST_CASE("ProcessSetTable: numbers of removed sets are used again, the first removed first") {
  ProcessSetTable sets(4);
  CHECK(*sets.number(kGlobalSet) == 0);
  const SetId first = sets.add({0});
  const SetId second = sets.add({1});
  sets.remove(second);
  sets.remove(first);
  CHECK_FALSE(sets.number(first).ok());
  sets.skip();  // takes no number
  CHECK(sets.next_number() == 2);
  const SetId third = sets.add({2});
  const SetId fourth = sets.add({3});
  const SetId fifth = sets.add({0, 1});
  CHECK(third > second + 1);  // an id of its own: nothing in flight of the removed sets reaches it
  CHECK(*sets.number(third) == 2);
  CHECK(*sets.number(fourth) == 1);
  CHECK(*sets.number(fifth) == 3);
  CHECK(sets.next_number() == 4);
  CHECK(sets.check_new({2}).message().find("process set 2") != std::string::npos);
}

TEST_CASE("ProcessSetTable: ranks that cannot be a set are named") {
  ProcessSetTable sets(3);
  CHECK(sets.check_new({0, 1}).ok());
  CHECK_FALSE(sets.check_new({}).ok());
  CHECK(sets.check_new({1, 3}).message().find("rank 3") != std::string::npos);
  CHECK(sets.check_new({1, 1}).message().find("twice") != std::string::npos);
  CHECK(sets.check_new({0, 1, 2}).message().find("process set 0") != std::string::npos);
}

TEST_CASE("ProcessSetTable: sets known to their members only are apart from all others") {
  ProcessSetTable sets(3);
  const SetId id = sets.next_private();
  CHECK(id >= kFirstPrivateSet);
  sets.add_private(id + 4, {0, 1});  // another member had used more
  CHECK(sets.next_private() == id + 5);
  CHECK(*sets.ranks(id + 4) == std::vector<int>{0, 1});
  CHECK(*sets.number(id + 4) == id + 4);
  CHECK(sets.ids() == std::vector<SetId>{kGlobalSet});
  CHECK(sets.check_new({0, 1}).ok());
  CHECK(sets.add({0, 1}) == 1);
  sets.remove(id + 4);
  CHECK_FALSE(sets.ranks(id + 4).ok());
}

}  // namespace ronde
