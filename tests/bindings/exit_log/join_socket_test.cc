#include "bindings/exit_log/join_socket.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace ronde {
namespace {

/// Names a socket as an agent does for its ranks.
void name_socket(const std::string& name) {
  ::setenv(kJoinVariable, name.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

TEST_CASE("joins: an agent hears of a rank that joins, and remembers it") {
  JoinSocket joins;
  REQUIRE(joins.open().ok());
  CHECK_FALSE(joins.joined());
  name_socket(joins.name());
  tell_of_join();
  CHECK(joins.joined());
  CHECK(joins.joined());
}

TEST_CASE("joins: more ranks than a socket has room for are no problem") {
  JoinSocket joins;
  REQUIRE(joins.open().ok());
  name_socket(joins.name());
  for (int rank = 0; rank < 1000; ++rank) tell_of_join();
  CHECK(joins.joined());
}

TEST_CASE("joins: without an agent nothing happens") {
  name_socket("ronde-joins/none");
  tell_of_join();
  ::unsetenv(kJoinVariable);  // NOLINT(concurrency-mt-unsafe)
  tell_of_join();
}

}  // namespace ronde
