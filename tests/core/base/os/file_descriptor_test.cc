#include "core/base/os/file_descriptor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace ronde {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST_CASE("file descriptor: it is closed once, with its last owner") {
  int fd = -1;
  {
    FileDescriptor first(::dup(0));
    fd = first.get();
    FileDescriptor second(std::move(first));
    CHECK_FALSE(first.valid());
    CHECK(second.get() == fd);
    first = std::move(second);
    CHECK(is_open(fd));
  }
  CHECK_FALSE(is_open(fd));
}

TEST_CASE("file descriptor: what takes its place closes it, what releases it does not") {
  FileDescriptor owner(::dup(0));
  const int first = owner.get();
  owner.reset(::dup(0));
  CHECK_FALSE(is_open(first));
  const int second = owner.release();
  CHECK_FALSE(owner.valid());
  CHECK(is_open(second));
  ::close(second);
}

TEST_CASE("pipe: what is written is read, then comes the end") {
  auto made = make_pipe();
  REQUIRE(made.ok());
  Pipe pipe = std::move(*made);
  CHECK((::fcntl(pipe.read.get(), F_GETFD) & FD_CLOEXEC) != 0);
  set_nonblocking(pipe.read.get());
  std::string text = "a";
  CHECK(read_some(pipe.read.get(), text) == ReadState::kNothing);
  REQUIRE(::write(pipe.write.get(), "bc", 2) == 2);
  CHECK(read_some(pipe.read.get(), text) == ReadState::kData);
  CHECK(text == "abc");
  pipe.write.reset();
  CHECK(read_some(pipe.read.get(), text) == ReadState::kEnd);
}

TEST_CASE("event: it is readable from the first notification until it is cleared") {
  const FileDescriptor event = make_event();
  REQUIRE(event.valid());
  CHECK_FALSE(is_readable(event.get()));
  errno = EDOM;
  notify_event(event.get());
  notify_event(event.get());
  CHECK(errno == EDOM);
  CHECK(is_readable(event.get()));
  clear_event(event.get());
  CHECK_FALSE(is_readable(event.get()));
}

TEST_CASE("errno_status: it has the code and the text of the system") {
  errno = ENOENT;
  const Status status = errno_status("cannot open x", Code::kResourceExhausted);
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.message() == "cannot open x: No such file or directory");
}

}  // namespace
}  // namespace ronde
