#include "timeline/reading/job_clock.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>

namespace ronde {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kFastest = 15'000;  // of a message's ways, in ns

/// A host whose clock is minutes off and drifts, and the network to another.
class Host {
 public:
  Host(std::int64_t ahead_ns, double drift_ppm, unsigned seed)
      : ahead_ns_(ahead_ns), drift_ppm_(drift_ppm), random_(seed) {}

  [[nodiscard]] std::int64_t clock(std::int64_t true_ns) const {
    return true_ns + ahead_ns_ +
           std::llround(static_cast<double>(true_ns) * drift_ppm_ / 1'000'000);
  }

  /// How long a message takes: mostly little longer than the fastest, at times milliseconds.
  std::int64_t delay() {
    const double queue = std::exponential_distribution<>(1.0 / 30'000)(random_);
    const bool held_up = std::bernoulli_distribution(0.1)(random_);
    return kFastest + std::llround(held_up ? 50 * queue : queue);
  }

  /// Comparisons with a host whose clock is right.
  std::vector<ClockSample> compare(std::int64_t from_ns, std::int64_t to_ns) {
    std::vector<ClockSample> samples;
    for (std::int64_t sent = from_ns; sent < to_ns; sent += kSecond / 5) {
      const std::int64_t came = sent + delay();
      const std::int64_t back = came + delay();
      const std::int64_t local = (clock(sent) + clock(back)) / 2;
      samples.push_back({local, came - local, (clock(back) - clock(sent)) / 2, "right"});
    }
    return samples;
  }

 private:
  std::int64_t ahead_ns_;
  double drift_ppm_;
  std::mt19937 random_;
};

RecordingInfo recording(const std::string& boot, std::int64_t steady_ns, std::int64_t epoch_us) {
  RecordingInfo info;
  info.boot_id = boot;
  info.steady_start_ns = steady_ns;
  info.epoch_start_us = epoch_us;
  return info;
}

}  // namespace

TEST_CASE("job clock: ranks of one host follow its steady clock, whatever its wall clock did") {
  const JobClock clock(
      {{recording("h", 5'000'000, 1'000'000), {}}, {recording("h", 7'000'500, 9'000'000), {}}});
  CHECK(clock.time_of(0, 10) == 10);
  CHECK(clock.time_of(1, 10) == 2'000'510);
  CHECK(clock.error_ns() == 0);
}

TEST_CASE("job clock: hosts that nobody compared follow their wall clocks") {
  const JobClock clock({{recording("a", 9 * kSecond, 2'000'000), {}},
                        {recording("b", 1, 1'000'000), {}},
                        {recording("", 0, 3'000'000), {}}});
  CHECK(clock.time_of(0, 0) == kSecond);
  CHECK(clock.time_of(1, 0) == 0);
  CHECK(clock.time_of(2, 7) == 2 * kSecond + 7);
}

TEST_CASE("job clock: minutes off and drifting by 100 ppm, hosts agree to 50 us") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const double drift_ppm = seed % 2 == 0 ? 100 : -100;
    const std::int64_t ahead = (seed % 3 == 0 ? -1 : 1) * std::int64_t{420} * kSecond;
    const std::int64_t length = (seed % 4 == 0 ? 6 : 90) * kSecond;
    Host host(ahead, drift_ppm, seed);
    const std::int64_t start = 1000 * kSecond;
    const JobClock clock(
        {{recording("right", start, 0), {}},
         {recording("drifts", host.clock(start), 99), host.compare(start, start + length)}});
    CHECK(clock.error_ns() > kFastest / 2);
    for (std::int64_t at = 0; at < length; at += kSecond / 7) {
      const std::int64_t told = clock.time_of(1, host.clock(start + at) - host.clock(start));
      CAPTURE(seed);
      CAPTURE(at);
      CHECK(std::abs(told - at) <= 50'000);
      // An effect of the fastest message is later than the message, in both directions.
      CHECK(told > at - kFastest);
      CHECK(told < at + kFastest);
    }
  }
}

TEST_CASE("job clock: the error that is told is not smaller than the true one, in 300 jobs") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const double drift_ppm = static_cast<double>(seed % 7) * 30 - 90;
    const std::int64_t length = kSecond / 2 * static_cast<int>(1 + seed % 23);
    Host host(5 * kSecond, drift_ppm, seed);
    const std::int64_t start = 1000 * kSecond;
    const JobClock clock(
        {{recording("right", start, 0), {}},
         {recording("drifts", host.clock(start), 99), host.compare(start, start + length)}});
    std::int64_t worst = 0;
    for (std::int64_t at = 0; at < length; at += kSecond / 20) {
      const std::int64_t told = clock.time_of(1, host.clock(start + at) - host.clock(start));
      worst = std::max(worst, std::abs(told - at));
    }
    CAPTURE(seed);
    CHECK(worst <= clock.error_ns());
    CHECK(clock.error_ns() < 2'000'000);
  }
}

TEST_CASE("job clock: the comparisons of one rank hold for all of its host") {
  Host host(60 * kSecond, 50, 1);
  const std::int64_t start = 500 * kSecond;
  const JobClock clock({{recording("right", start, 0), {}},
                        {recording("b", host.clock(start), 0), host.compare(start, 2 * start)},
                        {recording("b", host.clock(start) + 300, 7'000'000), {}}});
  CHECK(clock.time_of(2, 0) == clock.time_of(1, 300));
}

TEST_CASE("job clock: a host that is followed need not have a trace") {
  Host b(60 * kSecond, 0, 1);
  Host c(-90 * kSecond, 0, 2);
  const JobClock clock({{recording("b", b.clock(0), 5'000'000), b.compare(0, 20 * kSecond)},
                        {recording("c", c.clock(0), 5'000'000), c.compare(0, 20 * kSecond)}});
  CHECK(std::abs(clock.time_of(0, 0) - clock.time_of(1, 0)) < kSecond);
}

TEST_CASE("job clock: one comparison, or one with itself, is enough") {
  const JobClock clock({{recording("a", 1000, 0), {}},
                        {recording("b", 5000, 0), {{5000, -4000, 3, "a"}, {5000, 9, 1, "b"}}}});
  CHECK(clock.time_of(1, 500) == 500);
  CHECK(clock.error_ns() == 3);
}

namespace {

/// A comparison at `local_ns` with a host whose clock is `offset_ns` ahead.
ClockSample compared(std::int64_t local_ns, std::int64_t offset_ns, const std::string& reference) {
  return {local_ns, offset_ns, 1000, reference};
}

}  // namespace

TEST_CASE(
    "job clock: a host may follow one that follows a third, as rank 0 moves in elastic jobs") {
  // Clocks: a shows t, b shows t + 100 s, c shows t + 300 s. b was compared with a, c with b.
  const JobClock clock(
      {{recording("a", 0, 50'000'000), {}},
       {recording("b", 101 * kSecond, 7), {compared(101 * kSecond, -100 * kSecond, "a")}},
       {recording("c", 302 * kSecond, 9), {compared(302 * kSecond, -200 * kSecond, "b")}}});
  CHECK(clock.time_of(0, 0) == 0);
  CHECK(clock.time_of(1, 0) == kSecond);
  CHECK(clock.time_of(2, 0) == 2 * kSecond);
}

TEST_CASE("job clock: two hosts that were each rank 0's for a while agree") {
  for (const bool first : {true, false}) {
    CAPTURE(first);
    const std::vector<ClockSample> of_a = {compared(1 * kSecond, 100 * kSecond, "b")};
    const std::vector<ClockSample> of_b = {compared(103 * kSecond, -100 * kSecond, "a")};
    const TraceClock a{recording("a", 0, 50'000'000), of_a};
    const TraceClock b{recording("b", 104 * kSecond, 50'000'000), of_b};
    const JobClock clock(first ? std::vector{a, b} : std::vector{b, a});
    const std::size_t of_b_trace = first ? 1 : 0;
    CHECK(clock.time_of(1 - of_b_trace, 0) == 0);
    CHECK(clock.time_of(of_b_trace, 0) == 4 * kSecond);
  }
}

}  // namespace ronde
