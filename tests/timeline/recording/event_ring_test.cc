#include "timeline/recording/event_ring.h"

#include <doctest/doctest.h>

#include <map>
#include <thread>
#include <vector>

namespace ronde {
namespace {

Event named(EventKind kind, std::string_view track, std::string_view name = {}) {
  Event event;
  event.kind = kind;
  event.track = track;
  event.name = name;
  return event;
}

}  // namespace

TEST_CASE("event ring: events come out as they went in, long texts too") {
  EventRing ring(8);
  const std::string long_track(1000, 'x');
  Event event = named(EventKind::kBegin, long_track, "RUN");
  event.algorithm = "ring";
  event.bytes = 7;
  CHECK(ring.push(event));
  CHECK(ring.push(named(EventKind::kEnd, "short")));
  CHECK(ring.pop([&](const Event& got) {
    CHECK(got.track == long_track);
    CHECK(got.name == "RUN");
    CHECK(got.algorithm == "ring");
    CHECK(got.backend.empty());
    CHECK(got.bytes == 7);
  }));
  CHECK(ring.pop([](const Event& got) { CHECK(got.track == "short"); }));
  CHECK_FALSE(ring.pop([](const Event&) {}));
}

TEST_CASE("event ring: a full ring refuses, but keeps room for spans to end") {
  EventRing ring(16);
  int begun = 0;
  while (ring.push(named(EventKind::kBegin, "a"))) ++begun;
  CHECK(begun == 14);
  CHECK(ring.push(named(EventKind::kEnd, "a")));
  CHECK(ring.push(named(EventKind::kEnd, "a")));
  CHECK_FALSE(ring.push(named(EventKind::kEnd, "a")));
  CHECK(ring.half_full());
  CHECK(ring.pop([](const Event&) {}));
  CHECK(ring.push(named(EventKind::kEnd, "a")));
}

TEST_CASE("event ring: tracks that share an event come out as they went in") {
  EventRing ring(8);
  std::vector<std::string> names(160);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = "allreduce." + std::to_string(i);
  const std::vector<std::string_view> tracks(names.begin(), names.end());
  Event event = named(EventKind::kBegin, {}, "ALLREDUCE");
  event.tracks = tracks;
  event.backend = "shm";
  CHECK(ring.push(event));
  const std::vector<std::string> expected = names;
  for (std::string& name : names) name.assign(name.size(), '?');  // the caller's are used again
  CHECK(ring.pop([&](const Event& got) {
    CHECK(std::vector<std::string>(got.tracks.begin(), got.tracks.end()) == expected);
    CHECK(got.track.empty());
    CHECK(got.name == "ALLREDUCE");
    CHECK(got.backend == "shm");
  }));
}

TEST_CASE("event ring: every fact of an event comes out, and none of those before it") {
  EventRing ring(1);
  const Event full{{.collective = Collective::kGather,
                    .bytes = 2,
                    .algorithm = "ring",
                    .backend = "tcp",
                    .tensors = 4,
                    .bundle = 5,
                    .partition = 6,
                    .pack_ns = 7,
                    .compression = {8, 9, 10, 11},
                    .at_ns = 1},
                   EventKind::kCounter,
                   "track",
                   "name",
                   3.5};
  const auto check = [&](const Event& wanted) {
    CHECK(ring.pop([&](const Event& got) {
      CHECK(static_cast<const EventArgs&>(got) == wanted);
      CHECK(got.kind == wanted.kind);
      CHECK(got.value == wanted.value);
      CHECK(got.tracks.empty());
      CHECK(got.track == wanted.track);
      CHECK(got.name == wanted.name);
    }));
  };
  CHECK(ring.push(full));
  check(full);
  const Event plain = named(EventKind::kEnd, "other");
  CHECK(ring.push(plain));
  check(plain);
}

TEST_CASE("event ring: long texts take so much memory at most, and ends have some of their own") {
  EventRing ring(1024);
  const std::string track(EventRing::kHeapBytes / 16, 'x');
  int begun = 0;
  while (ring.push(named(EventKind::kBegin, track))) ++begun;
  CHECK(begun == 14);
  CHECK(ring.push(named(EventKind::kBegin, "short")));
  CHECK(ring.push(named(EventKind::kEnd, track)));
  CHECK(ring.push(named(EventKind::kEnd, track)));
  CHECK_FALSE(ring.push(named(EventKind::kEnd, track)));
  CHECK(ring.pop([](const Event&) {}));
  CHECK(ring.push(named(EventKind::kEnd, track)));
  while (ring.pop([](const Event&) {})) {
  }
  for (int i = 0; i < 14; ++i) CHECK(ring.push(named(EventKind::kBegin, track)));
}

TEST_CASE("event ring: many threads lose nothing that was taken, each in its order") {
  EventRing ring(64);
  constexpr int kThreads = 3;
  constexpr int kEach = 20000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> taken{0};
  std::atomic<int> running{kThreads};
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, track = std::string(static_cast<std::size_t>(1 + thread * 70), 't')] {
      for (int i = 0; i < kEach; ++i) {
        Event event = named(EventKind::kInstant, track);
        event.at_ns = i;
        taken += ring.push(event) ? 1 : 0;
      }
      --running;
    });
  }
  int got = 0;
  std::map<std::size_t, std::int64_t> last;
  const auto check = [&](const Event& event) {
    ++got;
    const auto known = last.try_emplace(event.track.size(), -1).first;
    CHECK(event.at_ns > known->second);
    known->second = event.at_ns;
  };
  while (running.load() > 0) {
    if (!ring.pop(check)) std::this_thread::yield();
  }
  while (ring.pop(check)) {
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(got == taken.load());
  CHECK(got > 0);
}

}  // namespace ronde
