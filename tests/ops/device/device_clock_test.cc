#include "ops/device/device_clock.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE(
    "device clock: where the device was idle once, its time is known by when that was queued") {
  DeviceClock clock;
  clock.take(1'000, 51'000, 90'000);   // idle: reached as it was queued
  clock.take(30'000, 52'000, 90'000);  // queued long before it was reached
  CHECK(clock.host_ns(1'000) == 51'000);
  CHECK(clock.host_ns(30'000) == 80'000);
}

TEST_CASE("device clock: nothing is later than it was seen") {
  DeviceClock clock;
  clock.take(0, 50'000, 90'000);
  clock.take(39'000, 50'000, 88'000);
  CHECK(clock.host_ns(39'000) <= 88'000);
}

TEST_CASE("device clock: clocks that drift apart are followed") {
  DeviceClock clock;
  std::int64_t off_ns = 0;
  for (std::int64_t i = 0; i < 2'000; ++i) {
    const std::int64_t device_ns = i * 1'000'000;
    const std::int64_t reached_ns = device_ns - device_ns / 10'000;  // 100 ppm
    clock.take(device_ns, reached_ns - (i % 4) * 300'000, reached_ns + 50'000'000);
    off_ns = clock.host_ns(device_ns) - reached_ns;
  }
  CHECK(off_ns >= 0);
  CHECK(off_ns < 30'000);  // what they drift apart in the last 256 points
}

TEST_CASE("device clock: after a break it begins anew") {
  DeviceClock clock;
  clock.take(0, 1'000'000, 2'000'000);
  clock.clear();
  clock.take(0, 500, 900);
  CHECK(clock.host_ns(0) == 500);
}

}  // namespace ronde
