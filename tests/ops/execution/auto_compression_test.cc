#include "ops/execution/auto_compression.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ronde {
namespace {

/// A group of two, of which the other rank has this rank's numbers.
class Twins final : public Communicator {
 public:
  explicit Twins(double byte_seconds = 0) : Communicator({.name = "twins"}), byte_s(byte_seconds) {}

  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    if (!failure.ok()) return failure;
    if (work.kind == Collective::kAllreduce) {
      ++dense_calls;
      std::this_thread::sleep_for(
          std::chrono::duration<double>(static_cast<double>(work.bytes) * byte_s));
      return {};
    }
    ++exchanges;
    const Segment& numbers = work.segments[0];
    const std::size_t half = numbers.bytes / 2;
    std::memcpy(numbers.out, numbers.in, half);
    std::memcpy(numbers.out + half, numbers.in, half);
    return {};
  }

  double byte_s;  // seconds
  Status failure;
  int dense_calls = 0;
  int exchanges = 0;
};

/// Keeps the texts of marks.
class Marks final : public EventSink {
 public:
  void begin(std::string_view, std::string_view, const EventArgs&) override {}
  void end(std::string_view, const EventArgs&) override {}
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view text) override { texts.emplace_back(text); }
  void counter(std::string_view, double) override {}
  std::vector<std::string> texts;
};

/// One rank of it.
struct Rank {
  explicit Rank(Twins& group, AutoCompression::Options options = {.size = 2})
      : numbers(group, options.size), one(with_events(options), group, numbers) {
    events.set(&marks);
  }
  AutoCompression::Options with_events(AutoCompression::Options options) const {
    options.events = &events;
    return options;
  }
  Result<AutoChoice> choose(const std::string& compression = "auto", Device device = {}) {
    Bundle bundle;
    bundle.kind = Collective::kAllreduce;
    bundle.device = device;
    bundle.compression = compression;
    bundle.tensors.emplace_back();
    bundle.tensors.back().shape = {1024, 1024};
    bundle.keys = {"w"};
    return one.choose(bundle, input_bytes(bundle), abort);
  }
  Status learn(double seconds) { return one.learn(seconds, abort); }

  AbortToken abort;
  Marks marks;
  EventSwitch events;
  NumberExchange numbers;
  AutoCompression one;
};

constexpr double kSlow = 80e-9;  // 100 Mbit/s
constexpr const char* kAggressive = "auto:accuracy=aggressive";

}  // namespace

TEST_CASE("On a slow link auto takes what its class allows") {
  Twins slow(kSlow);
  Rank rank(slow);
  CHECK(rank.choose("auto:accuracy=lossless")->compression.empty());
  CHECK(slow.dense_calls == 0);
  const std::string safe = rank.choose()->compression;
  CHECK((safe == "fp16" || safe == "bf16"));
  Rank other(slow);
  CHECK(wire_share(parse_compression(other.choose(kAggressive)->compression)->kind,
                   load_of(std::vector<Shape>{{1024, 1024}}, 4)) < 0.25);
  CHECK(other.one.explain().size() == 2);
  CHECK(other.one.explain()[1].find("aggressive") != std::string::npos);
}

TEST_CASE("Where data moves as fast as memory auto is dense") {
  Twins fast;
  Rank rank(fast);
  for (const char* const text : {"auto", kAggressive}) {
    const auto choice = rank.choose(text);
    CHECK(choice->compression.empty());
    CHECK(choice->changed);
    CHECK_FALSE(rank.choose(text)->changed);
  }
}

TEST_CASE("A choice that is new is marked in the timeline") {
  Twins fast;
  Rank rank(fast);
  REQUIRE(rank.choose().ok());
  REQUIRE(rank.choose().ok());
  REQUIRE(rank.marks.texts.size() == 1);
  CHECK(rank.marks.texts[0].starts_with("compression auto: 4.19 MB dense"));
}

TEST_CASE("A bundle that names its codec keeps it, and is not timed") {
  Twins slow(kSlow);
  Rank rank(slow);
  CHECK(rank.choose("int8")->compression == "int8");
  CHECK(rank.one.observe(rank.abort).ok());
  CHECK(slow.exchanges == 0);
  CHECK(rank.one.explain().empty());
  CHECK(rank.marks.texts.empty());
}

TEST_CASE("A bundle of auto is timed once") {
  Twins fast;
  Rank rank(fast);
  REQUIRE(rank.choose().ok());
  const int measured = fast.exchanges;
  CHECK(rank.one.observe(rank.abort).ok());
  CHECK(rank.one.observe(rank.abort).ok());
  CHECK(fast.exchanges == measured + 1);
}

TEST_CASE("A group in shared memory measures nothing and is dense") {
  Twins slow(kSlow);
  Rank rank(slow, {.size = 2, .in_memory = true});
  CHECK(rank.one.explain().empty());
  CHECK(rank.choose(kAggressive)->compression.empty());
  CHECK(slow.exchanges == 0);
  CHECK(rank.one.explain().front().find("share memory") != std::string::npos);
}

TEST_CASE("A group of one, deterministic jobs and devices measure nothing and are dense") {
  Twins slow(kSlow);
  Rank alone(slow, {.size = 1});
  CHECK(alone.choose(kAggressive)->compression.empty());
  Rank deterministic(slow, {.size = 2, .deterministic = true});
  CHECK(deterministic.choose(kAggressive)->compression.empty());
  Rank any(slow);
  CHECK(any.choose(kAggressive, {DeviceKind::kCuda, 0})->compression.empty());
  CHECK(slow.exchanges == 0);
  for (const Rank* const rank : {&alone, &deterministic, &any}) CHECK(rank->one.explain().empty());
}

TEST_CASE("A parameter of auto that does not parse is an error") {
  Twins fast;
  Rank rank(fast);
  CHECK(rank.choose("auto:speed=9").status().code() == Code::kInvalidArgument);
  CHECK(rank.one.observe(rank.abort).ok());
}

TEST_CASE("The link is measured once, and known choices are talked about at first, then seldom") {
  Twins slow(20e-9);
  Rank rank(slow);
  (void)rank.choose();
  const int measured = slow.dense_calls;
  CHECK(measured < 40);
  const int begin = slow.exchanges;
  for (int i = 0; i < 30; ++i) {
    const auto choice = rank.choose();
    CHECK(rank.learn(choice->predicted_s).ok());
  }
  CHECK(slow.dense_calls == measured);
  CHECK(slow.exchanges - begin == 30);
  const int before = slow.exchanges;
  for (int i = 0; i < 160; ++i) {
    const auto choice = rank.choose();
    CHECK(rank.learn(choice->predicted_s).ok());
  }
  CHECK(slow.exchanges - before == 10);
}

TEST_CASE("A link that becomes slower is measured anew, and auto compresses") {
  Twins link;
  Rank rank(link);
  const auto step = [&](double dense_s, double compressed_s) {
    const auto choice = rank.choose(kAggressive);
    const bool dense = choice->compression.empty();
    CHECK(rank.learn(dense ? dense_s : compressed_s).ok());
    return dense;
  };
  for (int i = 0; i < 10; ++i) CHECK(step(1e-6, 1.0));
  link.byte_s = kSlow;
  bool dense = true;
  for (int i = 0; i < 200; ++i) dense = step(0.3, 0.02);
  CHECK_FALSE(dense);
}

TEST_CASE("What a lossy choice left over travels before anything that would leave it") {
  Twins link(kSlow);
  Rank rank(link);
  const auto lossy = rank.choose(kAggressive);
  REQUIRE(parse_compression(lossy->compression)->error_feedback);
  const auto leaves_it = [](const std::string& compression) {
    return compression.empty() || compression == "fp16" || compression == "bf16";
  };
  bool brought = false;
  for (int i = 0; i < 40 && !brought; ++i) {
    const auto choice = rank.choose(kAggressive);
    REQUIRE_FALSE(leaves_it(choice->compression));
    brought = choice->compression == "topk:ratio=1";
    if (!brought) CHECK(rank.learn(1.0).ok());  // slower than all that is untried
  }
  REQUIRE(brought);
  CHECK(leaves_it(rank.choose(kAggressive)->compression));
}

TEST_CASE("A failure of the group is handed on") {
  Twins broken;
  broken.failure = Status(Code::kAborted, "gone");
  CHECK(Rank(broken).choose().status().code() == Code::kAborted);
}

}  // namespace ronde
