#include "ops/device/device_times.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/base/clock.h"
#include "tests/support/device_spans.h"

namespace ronde {
namespace {

using test::DeviceSpans;

/// A device whose time is what the test says, and which reaches its points when the test says.
struct PacedDevice final : DeviceOps {
  struct Point final : DeviceEvent {
    Point(const PacedDevice& owner, std::int64_t when_ns) : device(owner), at_ns(when_ns) {}
    Result<bool> reached() const override { return at_ns <= device.done_ns; }
    Result<std::int64_t> ns_since(const DeviceEvent& earlier) const override {
      if (device.tells_no_times) return Status(Code::kUnavailable, "no times");
      return at_ns - static_cast<const Point&>(earlier).at_ns;
    }
    const PacedDevice& device;
    const std::int64_t at_ns;
  };

  int index() const noexcept override { return 0; }
  Status make_current() override { return {}; }
  Result<std::shared_ptr<std::byte>> allocate(MemoryKind, std::size_t) override {
    return Status(Code::kUnsupported, "no memory");
  }
  Result<DeviceStream> open_stream() override { return static_cast<DeviceStream>(&idle); }
  Status copy(void*, const void*, std::size_t, DeviceStream) override { return {}; }
  Status transform(const BatchedCopy&, DeviceStream) override { return {}; }
  Status wait(DeviceStream, const DeviceEvent&) override { return {}; }
  Result<DeviceEventPtr> record(DeviceStream stream, EventUse use) override {
    CHECK(use == EventUse::kTime);
    if (records_nothing) return Status(Code::kUnavailable, "no points");
    // Points of the stream with nothing to do are reached at once.
    return DeviceEventPtr(std::make_shared<Point>(*this, stream == &idle ? 0 : next_ns));
  }

  int idle = 0;
  std::int64_t next_ns = 0;  // when the stream's next point is reached
  std::int64_t done_ns = 0;  // how far the device has come
  bool records_nothing = false;
  bool tells_no_times = false;
};

/// The times of one stream of one device, and what is told of them.
struct Fixture {
  std::shared_ptr<PacedDevice> device = std::make_shared<PacedDevice>();
  DeviceTimes times{device, "gpu"};
  int work = 0;
  DeviceStream stream = &work;
  DeviceSpans spans;

  /// A bundle that is packed for 100 ns and moves for 900, from `start_ns` by the device's clock.
  void run(std::uint64_t bundle, std::int64_t start_ns) {
    device->next_ns = start_ns;
    times.begin(stream, bundle);
    device->next_ns = start_ns + 100;
    times.end_phase(stream, "PACK");
    device->next_ns = start_ns + 1000;
    times.end_phase(stream, "nccl");
  }
  std::size_t told() {
    times.report(spans);
    return spans.told.size();
  }
};

std::int64_t length_ns(const DeviceSpans::Told& span) {
  return span.times.end_ns - span.times.start_ns;
}

}  // namespace

TEST_CASE("device times: a bundle is told once all of it was reached, part by part") {
  Fixture f;
  const std::int64_t before_ns = to_ns(now());
  f.run(7, 0);
  f.device->done_ns = 999;
  CHECK(f.told() == 0);
  f.device->done_ns = 1000;
  REQUIRE(f.told() == 2);
  CHECK(f.told() == 2);  // once
  const auto& [pack, move] = std::tie(f.spans.told[0], f.spans.told[1]);
  CHECK(pack.name == "PACK");
  CHECK(move.name == "nccl");
  CHECK(pack.bundle == 7);
  CHECK(length_ns(pack) == 100);
  CHECK(length_ns(move) == 900);
  CHECK(pack.times.end_ns == move.times.start_ns);
  CHECK(pack.times.start_ns >= before_ns);
  CHECK(move.times.end_ns <= to_ns(now()) + 1000);
}

TEST_CASE("device times: bundles are told in their order, and never overlap") {
  Fixture f;
  f.run(1, 0);
  f.run(2, 5000);
  f.device->done_ns = 1000;
  CHECK(f.told() == 2);
  f.device->done_ns = 6000;
  REQUIRE(f.told() == 4);
  CHECK(f.spans.told[2].bundle == 2);
  CHECK(f.spans.told[2].times.start_ns >= f.spans.told[1].times.end_ns);
}

TEST_CASE("device times: of bundles that come faster than they are told the newest are kept") {
  Fixture f;
  for (std::uint64_t bundle = 1; bundle <= 100; ++bundle) {
    f.run(bundle, static_cast<std::int64_t>(bundle) * 1000);
  }
  f.device->done_ns = 200'000;
  REQUIRE(f.told() == 128);
  CHECK(f.spans.told.front().bundle == 37);
  CHECK(f.spans.told.back().bundle == 100);
}

TEST_CASE(
    "device times: where a point cannot be had the bundle is left out, and the next is told") {
  Fixture f;
  f.run(1, 0);
  f.device->next_ns = 2000;
  f.times.begin(f.stream, 2);
  f.device->records_nothing = true;
  f.times.end_phase(f.stream, "PACK");
  f.device->records_nothing = false;
  f.times.end_phase(f.stream, "nccl");
  f.run(3, 4000);
  f.device->done_ns = 9000;
  REQUIRE(f.told() == 4);
  CHECK(f.spans.told[2].bundle == 3);
}

TEST_CASE("device times: a device that tells no times has none, and is no error") {
  Fixture f;
  f.device->tells_no_times = true;
  f.run(1, 0);
  f.device->done_ns = 1000;
  CHECK(f.told() == 0);
  f.device->tells_no_times = false;
  f.run(2, 2000);
  f.device->done_ns = 3000;
  CHECK(f.told() == 2);
}

TEST_CASE("device times: what was begun before is forgotten") {
  Fixture f;
  f.run(1, 0);
  f.times.forget();
  f.times.end_phase(f.stream, "UNPACK");
  f.device->done_ns = 5000;
  CHECK(f.told() == 0);
}

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
