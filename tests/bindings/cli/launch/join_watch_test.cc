#include "bindings/cli/launch/join_watch.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

/// The complaint about a command whose ranks have all ended well.
std::string complaint(const std::vector<std::string>& command, int ranks, bool joined) {
  JoinWatch watch;
  for (int rank = 0; rank < ranks; ++rank) watch.on_exited({rank, 100 + rank, 0, joined});
  return watch.complaint(command);
}

}  // namespace

TEST_CASE("JoinWatch: a script that no rank has joined from is named") {
  CHECK(complaint({"python", "src/train.py", "--epochs", "3"}, 2, false) ==
        "no rank has joined the job: 2 processes ran train.py, each for itself; the script must "
        "call ronde.init(), or hvd.init(), unless its processes meet in another way");
}

TEST_CASE("JoinWatch: nothing is said of jobs that are as they should be") {
  CHECK(complaint({"python", "train.py"}, 2, true).empty());
  CHECK(complaint({"python", "train.py"}, 1, false).empty());
  CHECK(complaint({"hostname"}, 2, false).empty());
  CHECK(complaint({"bash", "-c", "echo $RANK"}, 2, false).empty());
}

}  // namespace ronde
