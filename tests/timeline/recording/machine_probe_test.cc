#include "timeline/recording/machine_probe.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace ronde {
namespace {

/// Keeps the counters that it is told of.
class Counters : public EventSink {
 public:
  void begin(std::string_view, std::string_view, const EventArgs&) override {}
  void end(std::string_view, const EventArgs&) override {}
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view name, double) override { names.emplace_back(name); }

  std::vector<std::string> names;
};

/// Lets the calling thread and another want one core for `time`.
void contend(std::chrono::milliseconds time) {
  cpu_set_t old;
  REQUIRE(::sched_getaffinity(0, sizeof old, &old) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
    }
  });
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
  done = true;
  other.join();
  REQUIRE(::sched_setaffinity(0, sizeof old, &old) == 0);
}

}  // namespace

TEST_CASE("core wait: what another thread takes of a core is told, where the kernel tells") {
  const auto before = core_wait_ns();
  if (!before) return;
  contend(std::chrono::milliseconds(200));
  const auto after = core_wait_ns();
  REQUIRE(after);
  CHECK(*after - *before > 20'000'000);
}

TEST_CASE("core wait: only the thread that marks steps reports, and waits once a millisecond") {
  if (!core_wait_ns()) return;
  Counters counters;
  CoreWait core_wait;
  core_wait.sample_step(counters);
  REQUIRE(counters.names.size() == 1);
  CHECK(counters.names[0] == kCoreWaitCounter);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    core_wait.sample(counters);
  });
  other.join();
  CHECK(counters.names.size() == 1);
  core_wait.sample(counters);
  CHECK(counters.names.size() == 2);
  for (int i = 0; i < 1000; ++i) core_wait.sample_step(counters);
  CHECK(counters.names.size() == 1002);
}

TEST_CASE("memory probe: a copy takes some time, and no machine does a terabyte a second") {
  const double gbps = measure_copy_gbps();
  CHECK(gbps > 0.01);
  CHECK(gbps < 1000);
}

}  // namespace ronde
