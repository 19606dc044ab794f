#include "tests/bindings/cli/program.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "bindings/cli/launch/process.h"

namespace ronde {
namespace {

constexpr int kTimeoutMs = 60'000;

std::string content_of(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

template <typename Condition>
bool wait_for(Condition condition) {
  for (int waited = 0; waited < kTimeoutMs; waited += 5) {
    if (condition()) return true;
    ::usleep(5000);
  }
  return false;
}

}  // namespace

Program::Program(const std::vector<std::string>& command)
    : out_(::memfd_create("out", MFD_CLOEXEC)), err_(::memfd_create("err", MFD_CLOEXEC)) {
  pid_ = start_child({.command = command,
                      .death_signal = SIGKILL,
                      .input = -1,
                      .output = out_.get(),
                      .error = err_.get()})
             .pid;
}

Program::~Program() {
  if (ended_ || pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const { ::kill(pid_, number); }

std::string Program::output() const { return content_of(out_.get()); }

bool Program::reap(int options) {
  if (!ended_) ended_ = ::waitpid(pid_, &wait_status_, options) == pid_;
  return ended_;
}

bool Program::wait_for_text(const FileDescriptor& file, const std::string& text) {
  bool found = false;
  (void)wait_for([&] {
    const bool ended = reap(WNOHANG);
    found = content_of(file.get()).find(text) != std::string::npos;
    return found || ended;
  });
  if (!found) MESSAGE("it has not written \"" << text << "\" but:\n" << content_of(file.get()));
  return found;
}

Finished Program::wait() {
  if (pid_ < 0 || !wait_for([&] { return reap(WNOHANG); })) return {};
  return {exit_status_of(wait_status_), output(), content_of(err_.get())};
}

std::vector<std::string> ronde_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RONDE_PROGRAM);
  return arguments;
}

Finished run_ronde(std::vector<std::string> arguments) {
  return Program(ronde_command(std::move(arguments))).wait();
}

bool wait_until_gone(pid_t pid) {
  return wait_for([pid] { return ::kill(pid, 0) != 0; });
}

std::vector<int> numbers_after(const std::string& text, const std::string& word) {
  std::vector<int> numbers;
  const std::string mark = word + "=";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    numbers.push_back(std::atoi(text.c_str() + at + mark.size()));
  }
  return numbers;
}

}  // namespace ronde
