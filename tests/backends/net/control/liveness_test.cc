// How long silence is borne: by the values alone.
#include "backends/net/control/liveness.h"

#include <doctest/doctest.h>

namespace ronde::net {
namespace {

using std::chrono::milliseconds;

/// A watch of one peer that is looked at every 100 ms.
struct Scene {
  SilenceWatch watch{1, milliseconds(100), milliseconds(1000)};
  TimePoint time{std::chrono::seconds(50)};

  Silence look(std::uint64_t value, milliseconds after = milliseconds(100)) {
    time += after;
    watch.look(time);
    return watch.sign(0, value, milliseconds(400));
  }
};

}  // namespace

TEST_CASE("SilenceWatch: a peer is suspected once, back once, and suspected anew") {
  Scene scene;
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(scene.look(i) == Silence::kNone);
  for (int i = 0; i < 3; ++i) CHECK(scene.look(19) == Silence::kNone);
  CHECK(scene.look(19) == Silence::kSuspected);
  CHECK(scene.look(19) == Silence::kNone);
  CHECK(scene.look(20) == Silence::kBack);
  CHECK(scene.watch.silence_before(0) == milliseconds(500));
  for (int i = 0; i < 3; ++i) CHECK(scene.look(20) == Silence::kNone);
  CHECK(scene.look(20) == Silence::kSuspected);
}

TEST_CASE("SilenceWatch: a peer is given up once, and never where the limit is zero") {
  Scene scene;
  scene.look(1);
  int given_up = 0;
  for (int i = 0; i < 20; ++i) given_up += scene.look(1) == Silence::kGivenUp ? 1 : 0;
  CHECK(given_up == 1);
  CHECK(scene.watch.silence(0) == milliseconds(2000));
  SilenceWatch patient(1, milliseconds(100), Duration::zero());
  for (int i = 0; i < 1000; ++i) {
    patient.look(TimePoint(milliseconds(100) * i));
    CHECK(patient.sign(0, 7, Duration::max()) == Silence::kNone);
  }
}

TEST_CASE("SilenceWatch: who was frozen itself does not blame its peers") {
  Scene scene;
  scene.look(1);
  CHECK(scene.look(1, std::chrono::hours(1)) == Silence::kNone);
  CHECK(scene.watch.silence(0) == milliseconds(200));
}

}  // namespace ronde::net
