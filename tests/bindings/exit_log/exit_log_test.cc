// With a launcher's agent on the other end: tests/bindings/python/jobs_that_fail/exit_log_test.py.
#include "bindings/exit_log/exit_log.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ronde {
namespace {

TEST_CASE("exit log: a process is found by pid and host, the last of that number") {
  ExitLog file;
  REQUIRE(file.open().ok());
  CHECK(read_exit(file.reading(), 12, "a").empty());
  file.add({12, "a", "exited with status 3"});
  file.add({12, "b", "was killed by signal 9 (Killed)"});
  file.add({112, "a", "exited with status 1"});
  CHECK(read_exit(file.reading(), 12, "a") == "exited with status 3");
  CHECK(read_exit(file.reading(), 12, "b") == "was killed by signal 9 (Killed)");
  CHECK(read_exit(file.reading(), 2, "a").empty());
  CHECK(read_exit(file.reading(), 12, "aa").empty());
  file.add({12, "a", "exited with status 0"});
  CHECK(read_exit(file.reading(), 12, "a") == "exited with status 0");
}

TEST_CASE("exit log: a process that inherits it cannot write it") {
  ExitLog file;
  REQUIRE(file.open().ok());
  CHECK(::write(file.reading(), "x", 1) == -1);
}

TEST_CASE("exit log: a descriptor that is something else by now says nothing") {
  const FileDescriptor other(::memfd_create("other", MFD_CLOEXEC));
  const std::string line = "12 a exited with status 3\n";
  REQUIRE(::write(other.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  CHECK(read_exit(other.get(), 12, "a").empty());
  CHECK(read_exit(-1, 12, "a").empty());
  CHECK(read_exit(1'000'000, 12, "a").empty());
}

TEST_CASE("exit log: errors stay as they are without a launcher, and those about no rank always") {
  const Status died = Status(Code::kRankFailure, "rank 1 died").about({1, "a", 12});
  CHECK(with_exit(died).message() == "rank 1 died");
  CHECK(with_exit(Status(Code::kTimeout, "late")).message() == "late");
  CHECK(with_exit(Status()).ok());
}

}  // namespace
}  // namespace ronde
