#include "bindings/runtime/diagnosis/stacks.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/thread_name.h"

namespace ronde::diagnosis {

/// In no anonymous namespace, so that its name is in the symbol table whatever is optimised.
[[gnu::noinline]] void wait_in_a_place_with_a_name(const std::atomic<bool>& over) {
  while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

namespace {

/// A thread that waits until it is let go.
class Waiter {
 public:
  explicit Waiter(bool deaf)
      : thread_([this, deaf] {
          name_this_thread("ronde-test");
          if (deaf) {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, nullptr);
          }
          tid_ = ::gettid();
          wait_in_a_place_with_a_name(over_);
        }) {
    while (tid_ == 0) std::this_thread::yield();
  }
  ~Waiter() {
    over_ = true;
    thread_.join();
  }
  [[nodiscard]] int tid() const { return tid_; }

 private:
  std::atomic<bool> over_{false};
  std::atomic<int> tid_{0};
  std::thread thread_;
};

TimePoint soon() { return now() + std::chrono::seconds(5); }

}  // namespace

TEST_CASE("Stacks: a thread's frames are named, functions that are not exported too") {
  const Waiter waiter(false);
  const std::vector<int> tids = {waiter.tid()};
  const auto stacks = take_stacks(tids, soon());
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].name == "ronde-test");
  const auto& frames = stacks[0].frames;
  CHECK(std::any_of(frames.begin(), frames.end(), [](const std::string& frame) {
    return frame.find("wait_in_a_place_with_a_name") != std::string::npos;
  }));
}

TEST_CASE("Stacks: a thread that blocks signals is told as the kernel sees it") {
  const Waiter waiter(true);
  const std::vector<int> tids = {waiter.tid()};
  const auto stacks = take_stacks(tids, soon());
  CHECK(stacks[0].frames.empty());
  CHECK_FALSE(stacks[0].state.empty());
  CHECK(stacks[0].state != "gone");
}

TEST_CASE("Stacks: threads are found by name; one that is gone is told so") {
  int tid = 0;
  {
    const Waiter waiter(false);
    tid = waiter.tid();
    const auto found = threads_named("ronde-test");
    CHECK(std::find(found.begin(), found.end(), tid) != found.end());
  }
  const std::vector<int> tids = {tid};
  CHECK(take_stacks(tids, soon())[0].state == "gone");
}

}  // namespace ronde::diagnosis
