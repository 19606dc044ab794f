#include "bindings/runtime/diagnosis/script_stacks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace ronde::diagnosis {
namespace {

using Lines = Result<std::vector<DumpScriptThread>>;

Lines one_line() { return std::vector<DumpScriptThread>{{1, "MainThread", "a.py:2 in f", {}}}; }

TimePoint in_time() { return now() + std::chrono::seconds(20); }

/// A source that waits, as for an interpreter's lock that another thread holds.
class LockedSource {
 public:
  LockedSource() = default;
  ~LockedSource() { unlock(); }
  LockedSource(const LockedSource&) = delete;
  LockedSource& operator=(const LockedSource&) = delete;

  void unlock() { locked_ = false; }
  [[nodiscard]] int calls() const { return calls_; }
  [[nodiscard]] ScriptSource source() {
    return [this] {
      ++calls_;
      while (locked_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return one_line();
    };
  }

 private:
  std::atomic<bool> locked_{true};
  std::atomic<int> calls_{0};
};

}  // namespace

TEST_CASE("ScriptStacks: a program without a script says nothing of one") {
  ScriptStacks stacks(nullptr);
  Dump dump;
  stacks.begin();
  stacks.finish(dump, in_time());
  CHECK(dump.script.empty());
  CHECK(dump.script_error.empty());
}

TEST_CASE("ScriptStacks: the lines are asked for anew each time") {
  int calls = 0;
  ScriptStacks stacks([&calls] {
    ++calls;
    return one_line();
  });
  for (int i = 1; i <= 3; ++i) {
    Dump dump;
    stacks.begin();
    stacks.finish(dump, in_time());
    REQUIRE(dump.script.size() == 1);
    CHECK(dump.script[0].line == "a.py:2 in f");
    CHECK(dump.script_error.empty());
    CHECK(calls == i);
  }
}

TEST_CASE("ScriptStacks: an error of the source is told") {
  ScriptStacks stacks([]() -> Lines { return Status(Code::kInternal, "no frames"); });
  Dump dump;
  stacks.begin();
  stacks.finish(dump, in_time());
  CHECK(dump.script.empty());
  CHECK(dump.script_error == "no frames");
}

TEST_CASE("ScriptStacks: a lock that is held is told, is asked for once, and may be had later") {
  LockedSource locked;
  ScriptStacks stacks(locked.source());
  for (int i = 0; i < 2; ++i) {
    Dump dump;
    stacks.begin();
    stacks.finish(dump, now() + std::chrono::milliseconds(1));
    CHECK(dump.script.empty());
    CHECK(dump.script_error.find("(GIL)") != std::string::npos);
  }
  locked.unlock();
  Dump dump;
  stacks.finish(dump, in_time());
  CHECK(dump.script.size() == 1);
  CHECK(locked.calls() == 1);
}

TEST_CASE("ScriptStacks: abort ends the wait, and no call begins after it") {
  LockedSource locked;
  ScriptStacks stacks(locked.source());
  stacks.begin();
  std::thread aborting([&stacks] { stacks.abort(); });
  Dump dump;
  stacks.finish(dump, kForever);
  aborting.join();
  CHECK(dump.script.empty());
  CHECK(dump.script_error.empty());
  locked.unlock();
  stacks.begin();
  CHECK(locked.calls() <= 1);
}

TEST_CASE("ScriptStacks: the destructor waits for a call that is under way") {
  std::atomic<bool> ended{false};
  {
    ScriptStacks stacks([&ended] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
      return one_line();
    });
    stacks.begin();
  }
  CHECK(ended);
}

}  // namespace ronde::diagnosis
