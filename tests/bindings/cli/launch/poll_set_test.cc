#include <doctest/doctest.h>
#include <unistd.h>

#include <string>

#include "bindings/cli/launch/event_loop.h"
#include "core/base/os/file_descriptor.h"

namespace ronde {

TEST_CASE("poll set: calls the handlers of ready descriptors alone, in order, once") {
  auto first = make_pipe();
  auto second = make_pipe();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(::write(first->write.get(), "x", 1) == 1);
  std::string called;
  PollSet set;
  set.add(-1, POLLIN, [&] { called += "none "; });
  set.add(first->write.get(), POLLOUT, [&] { called += "write "; });
  set.add(second->read.get(), POLLIN, [&] { called += "second "; });
  set.add(first->read.get(), POLLIN, [&] { called += "first "; });
  set.wait(kForever);
  CHECK(called == "write first ");
  set.wait(now());
  CHECK(called == "write first ");
}

TEST_CASE("poll set: waits no longer than to the deadline") {
  auto pipe = make_pipe();
  REQUIRE(pipe.ok());
  bool called = false;
  PollSet set;
  set.add(pipe->read.get(), POLLIN, [&] { called = true; });
  const TimePoint deadline = now() + std::chrono::milliseconds(20);
  set.wait(deadline);
  CHECK(now() >= deadline);
  CHECK_FALSE(called);
}

}  // namespace ronde
