#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "bindings/cli/doctor.h"
#include "bindings/cli/launch/elastic/job_history.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using test::contains;

/// Serves the history in a thread, as a launcher's loop does.
class Serving {
 public:
  explicit Serving(const JobHistory& history) : socket_(history) {
    thread_ = std::thread([this] {
      while (!over_) {
        PollSet polled;
        socket_.watch(polled);
        polled.wait(now() + std::chrono::milliseconds(5));
        socket_.on_time(now());
      }
    });
  }
  ~Serving() {
    over_ = true;
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  StatusSocket socket_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("launcher address: what it says is read back, and nothing else") {
  const LauncherAddress address{77, "00112233445566aa"};
  const auto read = LauncherAddress::parse(address.text());
  REQUIRE(read);
  CHECK(read->pid == 77);
  CHECK(read->job == address.job);
  CHECK(address.owns("00112233445566aa-12"));
  CHECK_FALSE(address.owns("00112233445566aa"));
  CHECK_FALSE(address.owns("0011-1"));
  for (const char* other : {"", "ronde-elastic/", "ronde-elastic/x/j", "ronde-elastic/0/j",
                            "ronde-elastic/7", "ronde-elastic/7/a/b", "ronde-doctor/7/j"}) {
    CAPTURE(other);
    CHECK_FALSE(LauncherAddress::parse(other));
  }
}

TEST_CASE("status socket: doctor finds the launcher, and gets the history's status") {
  JobHistory history("0123456789abcdef", "");
  history.on_start(4, "here");
  history.on_started(4, 77);
  const Serving serving(history);
  const auto launchers = find_launchers();
  const auto own = std::ranges::find(launchers, ::getpid(), &LauncherAddress::pid);
  REQUIRE(own != launchers.end());
  const auto answer = ask_launcher(*own, now() + std::chrono::seconds(20));
  REQUIRE(answer);
  CHECK(answer->job.empty());
  CHECK(answer->workers.at(77) == 4);
  CHECK(contains(answer->text, "job 0123456789abcdef: elastic, epoch 0 (none yet)"));
  CHECK(contains(answer->text, "the launcher waits for the next epoch: worker 4 to start"));
  CHECK(contains(answer->text, "worker 4, pid 77 on here: starts"));
}

}  // namespace ronde
