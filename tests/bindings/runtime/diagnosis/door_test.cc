#include "bindings/runtime/diagnosis/door.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "core/base/os/endpoint.h"

namespace ronde::diagnosis {
namespace {

DoorName name() {
  static int number = 0;
  return {.pid = ::getpid(), .number = 1000 + number++, .rank = 1, .size = 2, .job = "a job"};
}

FileDescriptor visit(const DoorName& door) {
  const Endpoint endpoint = abstract_endpoint(door.text());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool in = ::connect(fd.get(), endpoint.raw(), endpoint.length) == 0;
  return in ? std::move(fd) : FileDescriptor();
}

void say(const FileDescriptor& visitor, std::string_view text) {
  (void)::send(visitor.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string heard(const FileDescriptor& visitor) {
  std::string text(100, '\0');
  const ssize_t got = ::recv(visitor.get(), text.data(), text.size(), 0);
  return got < 0 ? "(nothing)" : text.substr(0, static_cast<std::size_t>(got));
}

std::shared_ptr<const std::string> dump() { return std::make_shared<const std::string>("a dump"); }

}  // namespace

TEST_CASE("DoorName: its text is read back, and others are not") {
  const DoorName door{.pid = 12, .number = 0, .rank = 3, .size = 4, .job = "my job/\n"};
  CHECK(door.text() == "ronde-doctor/12/0/3/4/my_job__");
  const auto read = DoorName::parse(door.text());
  REQUIRE(read);
  CHECK(read->pid == 12);
  CHECK(read->rank == 3);
  CHECK(read->job == "my_job__");
  for (const char* other :
       {"", "ronde-doctor/", "ronde-doctor/1/2/3", "ronde-doctor/1/2/3/x/j",
        "ronde-doctor/-1/2/3/4/j", "ronde-doctor/1/2/3/4/a b", "other/1/2/3/4/"}) {
    CAPTURE(other);
    CHECK_FALSE(DoorName::parse(other));
  }
}

TEST_CASE("Door: who says the word gets the dump, whole or in pieces") {
  const DoorName where = name();
  Door door = Door::open(where).value();
  const FileDescriptor visitor = visit(where);
  say(visitor, kDoorWord.substr(0, 5));
  door.turn(now(), dump);
  CHECK(heard(visitor) == "(nothing)");
  say(visitor, kDoorWord.substr(5));
  door.turn(now() + std::chrono::milliseconds(100), dump);
  CHECK(heard(visitor) == "a dump");
  CHECK(heard(visitor).empty());  // hung up
}

TEST_CASE("Door: who says anything else, or nothing, gets nothing") {
  const DoorName where = name();
  Door door = Door::open(where).value();
  const FileDescriptor liar = visit(where);
  const FileDescriptor silent = visit(where);
  say(liar, "GET / HTTP/1.0\r\n\r\n");
  door.turn(now(), dump);
  CHECK(heard(liar) != "a dump");
  CHECK(heard(silent) == "(nothing)");
  door.turn(now() + std::chrono::minutes(1), dump);
  CHECK(heard(silent).empty());
}

TEST_CASE("Door: a crowd of silent visitors is bounded, and one with the word gets through") {
  const DoorName where = name();
  Door door = Door::open(where).value();
  TimePoint time = now();
  std::vector<FileDescriptor> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(visit(where));
    if (!crowd.back().valid()) break;  // the queue is full
  }
  const std::size_t waiting = crowd.size();
  CHECK(waiting < 100);
  std::vector<pollfd> polled;
  for (int i = 0; i < 20; ++i) door.turn(time += std::chrono::milliseconds(20), dump);
  door.gather(polled);
  CHECK(polled.size() <= 17);
  const FileDescriptor visitor = visit(where);
  say(visitor, kDoorWord);
  door.turn(time += std::chrono::milliseconds(20), dump);
  CHECK(heard(visitor) == "a dump");
}

}  // namespace ronde::diagnosis
