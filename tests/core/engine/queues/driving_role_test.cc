#include "core/engine/queues/driving_role.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/core/engine/fake_channel.h"

namespace ronde {
namespace {

struct RoleFixture {
  test::FakeChannel channel;
  DrivingRole role{channel};

  void add_task(bool caller_waits) {
    std::optional<Sleeper> who;
    {
      MutexLock lock(role.mutex());
      who = role.add_task(caller_waits);
    }
    role.wake(who);
  }
  void take_tasks() {
    MutexLock lock(role.mutex());
    role.take_tasks();
  }
  std::uint32_t background_wakes() { return channel.wakes(Sleeper::kBackground); }
  std::uint32_t caller_wakes() { return channel.wakes(Sleeper::kCaller); }
};

bool never() { return false; }

/// Long enough for what a test waits for; it fails rather than hangs.
TimePoint soon() { return now() + std::chrono::seconds(20); }

}  // namespace

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: one thread at a time has the role") {
  CHECK(role.try_take());
  CHECK_FALSE(role.try_take());
  role.release(false);
  CHECK(role.try_take());
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: a task wakes the sleeping background thread, once") {
  REQUIRE(role.take_in_background());
  REQUIRE(role.may_sleep(Sleeper::kBackground));
  role.release_in_background();
  add_task(false);
  add_task(false);
  CHECK(background_wakes() == 1);
  CHECK(role.tasks() == 2);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: the task of a caller that waits wakes nobody") {
  REQUIRE(role.take_in_background());
  REQUIRE(role.may_sleep(Sleeper::kBackground));
  role.release_in_background();
  add_task(true);
  CHECK(background_wakes() == 0);
  CHECK(role.try_take());
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: any task wakes a caller that sleeps while it drives") {
  REQUIRE(role.try_take());
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  add_task(true);
  CHECK(caller_wakes() == 1);
  CHECK(background_wakes() == 0);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: nobody may sleep while tasks wait") {
  add_task(false);
  CHECK_FALSE(role.may_sleep(Sleeper::kBackground));
  take_tasks();
  CHECK(role.may_sleep(Sleeper::kBackground));
}

TEST_CASE_FIXTURE(RoleFixture,
                  "DrivingRole: a release wakes the background thread for tasks alone") {
  REQUIRE(role.try_take());
  role.release(false);
  CHECK(background_wakes() == 0);
  REQUIRE(role.try_take());
  add_task(true);
  role.release(false);
  CHECK(background_wakes() == 1);
}

TEST_CASE_FIXTURE(RoleFixture,
                  "DrivingRole: a release wakes the background thread for a deadline") {
  REQUIRE(role.try_take());
  role.release(true);
  CHECK(background_wakes() == 1);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: a release wakes a caller that waits for the driver") {
  REQUIRE(role.try_take());
  std::atomic<bool> waits = false;
  std::thread caller([&] {
    role.wait_for_driver(
        [&] {
          waits = true;  // evaluated with the mutex held: the release comes later
          return false;
        },
        soon());
    CHECK(role.try_take());
  });
  while (!waits) std::this_thread::yield();
  add_task(true);
  role.release(false);
  caller.join();
  CHECK(background_wakes() == 0);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: a caller waits for the driver until its deadline") {
  REQUIRE(role.try_take());
  role.wait_for_driver(never, now() + std::chrono::milliseconds(1));
  CHECK_FALSE(role.try_take());
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: what ends wakes a caller that waits for it") {
  REQUIRE(role.try_take());
  std::atomic<bool> done = false;
  std::atomic<bool> waits = false;
  std::thread caller([&] {
    role.wait_for_driver(
        [&] {
          waits = true;
          return done.load();
        },
        soon());
    CHECK(done);
  });
  while (!waits) std::this_thread::yield();
  done = true;
  role.notify_callers();
  caller.join();
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: what ends wakes a caller that sleeps, but no other") {
  REQUIRE(role.try_take());
  role.notify_callers();
  CHECK(caller_wakes() == 0);
  REQUIRE(role.may_sleep(Sleeper::kCaller));
  role.notify_callers();
  CHECK(caller_wakes() == 1);
  CHECK(background_wakes() == 0);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: a caller that goes has another thread take the role") {
  REQUIRE(role.try_take());
  role.pass_on();
  CHECK(background_wakes() == 0);
  role.release(false);
  add_task(true);
  role.pass_on();
  CHECK(background_wakes() == 1);
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: the sleeper can be woken without a task") {
  role.wake_sleeper();
  CHECK(background_wakes() == 0);
  REQUIRE(role.may_sleep(Sleeper::kBackground));
  role.wake_sleeper();
  CHECK(background_wakes() == 1);
}

TEST_CASE_FIXTURE(RoleFixture,
                  "DrivingRole: the background thread takes the role when it is free") {
  REQUIRE(role.try_take());
  std::thread background([&] { CHECK(role.take_in_background()); });
  role.release(false);
  background.join();
  CHECK_FALSE(role.try_take());
}

TEST_CASE_FIXTURE(RoleFixture, "DrivingRole: stopping ends the background thread's wait") {
  REQUIRE(role.try_take());
  std::thread background([&] { CHECK_FALSE(role.take_in_background()); });
  role.stop();
  background.join();
  CHECK(background_wakes() == 1);
  CHECK_FALSE(role.may_sleep(Sleeper::kBackground));
}

}  // namespace ronde
