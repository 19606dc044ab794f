#include <doctest/doctest.h>

#include "bindings/cli/command_line.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

std::string refusal(const Arguments& command) {
  return std::string(check_needs_no_shell(command).message());
}

}  // namespace

TEST_CASE("shell command: what a shell alone understands is refused with what to type") {
  CHECK(refusal({"true"}).empty());
  CHECK(refusal({"python3", "a=1", "x && y"}).empty());
  CHECK(refusal({"./no such program", "x"}).empty());  // it may be on the other hosts
  CHECK(contains(refusal({"LR=0.1", "true"}), "\"LR=0.1\" is no program: set a variable by --env"));
  CHECK(contains(refusal({"cd x && true"}), "-- sh -c 'cd x && true'"));
  CHECK(contains(refusal({"source", "env.sh"}), "-- sh -c"));
  CHECK(contains(refusal({"LR=0.1 python train.py"}), "-- sh -c 'LR=0.1 python train.py'"));
  CHECK(refusal({"=1", "true"}).empty());
  CHECK(refusal({"1A=1", "true"}).empty());
}

TEST_CASE("shell command: a command line that ends in a script is no script") {
  for (const char* const line : {"cd x && python y.py", "A=1 python y.py"}) {
    CHECK(runnable({line}) == Arguments{line});
    CHECK(contains(refusal(runnable({line})), "-- sh -c"));
  }
  CHECK(runnable({"y.py", "x"}).size() == 3);
}

TEST_CASE("shell command: horovodrun's variables and shell commands become a program's words") {
  CHECK(runnable_as_horovod({"true", "x y"}) == Arguments{"true", "x y"});
  CHECK(runnable_as_horovod({"A=1", "B=2 3", "true", "C=4"}) ==
        Arguments{"env", "A=1", "B=2 3", "true", "C=4"});
  CHECK(runnable_as_horovod({"cd x && true > y"}) == Arguments{"sh", "-c", "cd x && true > y"});
  CHECK(runnable_as_horovod({"A=1 B=2 true"}) == Arguments{"sh", "-c", "A=1 B=2 true"});
  CHECK(runnable_as_horovod({"A=1", "cd x; true"}) ==
        Arguments{"env", "A=1", "sh", "-c", "cd x; true"});
  const Arguments built_in = runnable_as_horovod({"exec", "echo", "a b"});
  CHECK(built_in.size() == 3);
  CHECK(contains(built_in.back(), "'a b'"));
  CHECK(runnable_as_horovod({"A=1", "train.py"}).size() == 4);
  CHECK(runnable_as_horovod({"A=1"}) == Arguments{"A=1"});
}

}  // namespace ronde
