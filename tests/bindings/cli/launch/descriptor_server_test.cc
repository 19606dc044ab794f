// A rank takes what its launcher passed, though a program between has closed the descriptors.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "bindings/cli/launch/rank_sockets.h"
#include "bindings/descriptors/passed.h"
#include "core/base/os/endpoint.h"
#include "core/base/os/memory_file.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

constexpr const char* kVariable = "RONDE_TEST_FD";

/// An agent with one descriptor of rank 3, and the environment of that rank.
class Agent {
 public:
  Agent() {
    REQUIRE(server_.open().ok());
    number_ = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 100);
    const std::vector<PassedDescriptor> passed = {{"RONDE_TEST_NONE_FD", -1}, {kVariable, number_}};
    const std::string text = describe_passed(server_.name(), 3, passed);
    ::setenv(kPassedVariable, text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    thread_ = std::thread([this] { serve(); });
  }
  ~Agent() {
    end();
    ::unsetenv(kPassedVariable);  // NOLINT(concurrency-mt-unsafe)
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// The number that the rank has inherited.
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] std::string name() const { return server_.name(); }
  void end() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    server_ = {};
  }

 private:
  void serve() {
    const DescriptorServer::Find find = [this](const PassedRequest& request,
                                               pid_t pid) -> Result<int> {
      CHECK(pid == ::getpid());
      if (request.rank == 3 && request.variable == kVariable) return file_.get();
      return Status(Code::kUnavailable, "no such descriptor");
    };
    while (!ended_) {
      PollSet set;
      server_.watch(set, find);
      set.wait(now() + std::chrono::milliseconds(5));
    }
  }

  FileDescriptor file_ = make_memory_text("ronde-test", "of the agent").value();
  DescriptorServer server_;
  int number_ = -1;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

std::string text_of(int fd) {
  std::string text(64, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(fd, text.data(), 64, 0), 0)));
  return text;
}

bool closes_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

}  // namespace

TEST_CASE("passed: an inherited descriptor is taken by its number, and no child gets it") {
  const Agent agent;
  ::fcntl(agent.number(), F_SETFD, 0);
  const auto taken = take_passed(kVariable, agent.number());
  REQUIRE((taken.ok() && *taken));
  CHECK((*taken)->get() == agent.number());
  CHECK(closes_on_exec(agent.number()));
}

TEST_CASE("passed: one that was closed on the way comes from the agent, again and again") {
  const Agent agent;
  ::close(agent.number());
  for (int i = 0; i < 2; ++i) {
    const auto taken = take_passed(kVariable, agent.number());
    REQUIRE((taken.ok() && *taken));
    CHECK(text_of((*taken)->get()) == "of the agent");
    CHECK(closes_on_exec((*taken)->get()));
  }
}

TEST_CASE("passed: a pipe, a socket or a file that has the number now stays as it is") {
  const Agent agent;
  Pipe pipe = make_pipe().value();
  REQUIRE(::write(pipe.write.get(), "mine", 4) == 4);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const FileDescriptor one(ends[0]), other(ends[1]);
  REQUIRE(::send(other.get(), "mine", 4, 0) == 4);
  const FileDescriptor file(::memfd_create("ronde-secret", 0));
  REQUIRE(::write(file.get(), "mine", 4) == 4);
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  for (const int foreign : {pipe.read.get(), one.get(), file.get()}) {
    REQUIRE(::dup2(foreign, agent.number()) == agent.number());
    const auto taken = take_passed(kVariable, agent.number());
    REQUIRE((taken.ok() && *taken));
    CHECK(text_of((*taken)->get()) == "of the agent");
    CHECK_FALSE(closes_on_exec(agent.number()));
    std::string text(4, '\0');
    CHECK(::read(agent.number(), text.data(), 4) == 4);
    CHECK(text == "mine");
  }
  ::close(agent.number());
}

TEST_CASE("passed: other variables and numbers are not the launcher's") {
  const Agent agent;
  CHECK_FALSE(take_passed("RONDE_TEST", agent.number()).value());
  CHECK_FALSE(take_passed("RONDE_TEST_NONE_FD", -1).value());
  CHECK_FALSE(take_passed(kVariable, agent.number() + 1).value());
  ::unsetenv(kPassedVariable);  // NOLINT(concurrency-mt-unsafe)
  CHECK_FALSE(take_passed(kVariable, agent.number()).value());
  ::close(agent.number());
}

TEST_CASE("passed: the error says why the agent does not give it, and what to do") {
  Agent agent;
  ::close(agent.number());
  const std::vector<PassedDescriptor> of_another = {{kVariable, agent.number()}};
  const std::string text = describe_passed(agent.name(), 4, of_another);
  ::setenv(kPassedVariable, text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const FileDescriptor silent = make_memory_text("x", "").value();
  REQUIRE(::dup2(silent.get(), agent.number()) == agent.number());
  std::string message = take_passed(kVariable, agent.number()).status().message();
  CHECK(contains(message, fmt::format("{}={}", kVariable, agent.number())));
  CHECK(contains(message, "no such descriptor"));
  CHECK(contains(message, "as the same user"));
  agent.end();
  message = take_passed(kVariable, agent.number()).status().message();
  CHECK(contains(message, "cannot be reached"));
  ::close(agent.number());
}

TEST_CASE("passed: an agent that does not answer ends the wait") {
  Agent agent;
  ::close(agent.number());
  const std::string name = agent.name();
  agent.end();
  const Endpoint endpoint = abstract_endpoint(name);
  const FileDescriptor deaf(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(deaf.get(), endpoint.raw(), endpoint.length) == 0);
  REQUIRE(::listen(deaf.get(), 4) == 0);
  const auto taken = take_passed(kVariable, agent.number(), std::chrono::milliseconds(20));
  CHECK(contains(taken.status().message(), "it does not answer"));
}

}  // namespace ronde
