// Runs programs from tests: what they print, how they end, and whether anything is left of them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/os/file_descriptor.h"

namespace ronde {

/// How a program ended and what it wrote.
struct Finished {
  int status = -1;  ///< As a shell has it: exit status, or 128 + signal.
  std::string out;
  std::string err;
};

/// A program that runs; killed when it goes out of scope.
class Program {
 public:
  explicit Program(const std::vector<std::string>& command);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// Waits until standard output holds `text`; false where the program ends or 60 s pass first.
  bool wait_for_output(const std::string& text) { return wait_for_text(out_, text); }
  /// The same of standard error.
  bool wait_for_error(const std::string& text) { return wait_for_text(err_, text); }
  /// Its standard output so far.
  [[nodiscard]] std::string output() const;
  /// Waits for the end.
  Finished wait();

 private:
  bool reap(int options);
  bool wait_for_text(const FileDescriptor& file, const std::string& text);

  FileDescriptor out_;
  FileDescriptor err_;
  pid_t pid_ = -1;
  int wait_status_ = 0;
  bool ended_ = false;
};

/// Runs `ronde` with these arguments to its end.
Finished run_ronde(std::vector<std::string> arguments);

/// As Program, of `ronde`.
std::vector<std::string> ronde_command(std::vector<std::string> arguments);

/// Waits until no process has this id; false after 60 s.
bool wait_until_gone(pid_t pid);

/// The numbers after each "`word`=" in `text`.
std::vector<int> numbers_after(const std::string& text, const std::string& word);

}  // namespace ronde
