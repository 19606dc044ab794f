// Whether a peer is alive, by its signs, by news and by a clock that the tests turn.
#include "backends/net/control/peer_liveness.h"

#include <doctest/doctest.h>

namespace ronde::net {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Seconds = std::chrono::seconds;

constexpr LossLimits kLimits{
    .link = Seconds(10), .freeze = Seconds(60), .reconnect = Duration::zero()};
constexpr milliseconds kAlmost = kBeatInterval - milliseconds(1);

/// A peer, and the clock by which it is looked at.
struct Scene {
  explicit Scene(const LossLimits& limits = kLimits) : peer(limits) {}

  /// Looks again after a time. True where the state has changed so that it is reported.
  bool look(LifeSigns signs, Duration after = kBeatInterval) {
    time += after;
    return peer.look(signs, time);
  }
  /// Looks at a peer that stays as silent, for so long. True where the last look has a report, and
  /// no other.
  bool stay_silent(LifeSigns signs, Duration lasting) {
    for (; lasting > kBeatInterval; lasting -= kBeatInterval) CHECK_FALSE(look(signs));
    return look(signs, lasting);
  }

  PeerLiveness peer;
  TimePoint time{Seconds(50)};
};

constexpr LifeSigns kBeat{.beats = 7};
constexpr LifeSigns kNextBeat{.beats = 8};
constexpr LifeSigns kBusy{.beats = 7, .may_be_busy = true};
constexpr LifeSigns kAnswer{.answers = 3};

TEST_CASE("a peer that gives signs is alive") {
  Scene scene;
  CHECK(scene.peer.state() == Life::kAlive);
  for (std::uint64_t i = 0; i < 1000; ++i) CHECK_FALSE(scene.look({.beats = i, .answers = i}));
  CHECK(scene.peer.state() == Life::kAlive);
  CHECK(scene.peer.silence() == Duration::zero());
  CHECK(scene.peer.host_silence() == Duration::zero());
  CHECK_FALSE(scene.peer.loss());
}

TEST_CASE("silence begins with the first look that finds nothing new") {
  Scene scene;
  scene.look(kBeat);
  CHECK(scene.peer.state() == Life::kAlive);
  CHECK_FALSE(scene.look(kBeat));
  CHECK(scene.peer.state() == Life::kSilent);
  CHECK(scene.peer.silence() == kBeatInterval);
  CHECK_FALSE(scene.look(kNextBeat));
  CHECK(scene.peer.state() == Life::kAlive);
  CHECK(scene.peer.last_silence() == kBeatInterval);
}

TEST_CASE("the first signs begin the watch, however late they come") {
  Scene scene;
  CHECK_FALSE(scene.stay_silent({}, hours(1)));
  CHECK(scene.peer.state() == Life::kAlive);
  CHECK_FALSE(scene.look(kBeat));
  CHECK(scene.peer.silence() == Duration::zero());
}

TEST_CASE("a peer freezes after 600 ms of silence and not before, and that is reported once") {
  Scene scene;
  scene.look(kBeat);
  CHECK_FALSE(scene.stay_silent(kBeat, kFrozenAfter - milliseconds(1)));
  CHECK(scene.peer.state() == Life::kSilent);
  CHECK(scene.look(kBeat, milliseconds(1)));
  CHECK(scene.peer.state() == Life::kFrozen);
  CHECK(scene.peer.silence() == Duration(kFrozenAfter));
  CHECK_FALSE(scene.look(kBeat));
  CHECK(scene.peer.state() == Life::kFrozen);
}

TEST_CASE("a peer that may be short of processor time freezes after 4 s and not before") {
  Scene scene;
  scene.look(kBusy);
  CHECK_FALSE(scene.stay_silent(kBusy, Duration(kFrozenBusyAfter) - milliseconds(1)));
  CHECK(scene.peer.state() == Life::kSilent);
  CHECK(scene.look(kBusy, milliseconds(1)));
  CHECK(scene.peer.state() == Life::kFrozen);
}

TEST_CASE("a peer that is known not to be busy freezes at once, and stays so") {
  Scene scene;
  scene.look(kBusy);
  CHECK_FALSE(scene.stay_silent(kBusy, Seconds(2)));
  CHECK(scene.look(kBeat));
  CHECK(scene.peer.state() == Life::kFrozen);
  CHECK_FALSE(scene.look(kBusy));
  CHECK(scene.peer.state() == Life::kFrozen);
}

TEST_CASE("a frozen peer that gives a sign is back once, and freezes anew") {
  Scene scene;
  scene.look(kBeat);
  CHECK(scene.stay_silent(kBeat, kFrozenAfter));
  CHECK_FALSE(scene.stay_silent(kBeat, Seconds(2)));
  CHECK(scene.look(kNextBeat));
  CHECK(scene.peer.state() == Life::kAlive);
  CHECK(scene.peer.last_silence() == kFrozenAfter + Seconds(2));
  CHECK_FALSE(scene.look(kBeat));
  CHECK(scene.stay_silent(kBeat, kFrozenAfter));
  CHECK(scene.peer.state() == Life::kFrozen);
}

TEST_CASE("a frozen peer is gone at the freeze limit and not before, once and for good") {
  Scene scene;
  scene.look(kBeat);
  CHECK(scene.stay_silent(kBeat, kFrozenAfter));
  CHECK_FALSE(scene.stay_silent(kBeat, kLimits.freeze - kFrozenAfter - milliseconds(1)));
  CHECK(scene.peer.state() == Life::kFrozen);
  CHECK(scene.look(kBeat, milliseconds(1)));
  CHECK(scene.peer.state() == Life::kGone);
  CHECK(scene.peer.loss() == Loss::kFrozen);
  CHECK_FALSE(scene.look(kBeat));
  CHECK_FALSE(scene.look(kNextBeat));
  CHECK(scene.peer.state() == Life::kGone);
}

TEST_CASE("a host that answers nothing for the link limit takes the peer along, and not before") {
  Scene scene;
  scene.look(kAnswer);
  CHECK_FALSE(scene.stay_silent(kAnswer, kLimits.link - milliseconds(1)));
  CHECK(scene.peer.state() == Life::kAlive);  // nothing is expected of the peer itself
  CHECK(scene.peer.host_silence() == kLimits.link - milliseconds(1));
  CHECK(scene.look(kAnswer, milliseconds(1)));
  CHECK(scene.peer.loss() == Loss::kUnreachable);
}

TEST_CASE("a host that answers for its frozen peer does not take it along") {
  Scene scene;
  std::uint64_t answers = 0;
  scene.look({.beats = 7, .answers = answers});
  for (Duration passed{0}; passed < kLimits.link + Seconds(1); passed += kBeatInterval) {
    scene.look({.beats = 7, .answers = ++answers});
  }
  CHECK(scene.peer.state() == Life::kFrozen);
  CHECK(scene.peer.host_silence() == Duration::zero());
}

TEST_CASE("a silent host counts before its silent peer") {
  Scene scene({.link = Seconds(4), .freeze = Seconds(4), .reconnect = {}});
  const LifeSigns signs{.beats = 7, .answers = 3, .may_be_busy = true};
  scene.look(signs);
  CHECK(scene.stay_silent(signs, Seconds(4)));
  CHECK(scene.peer.loss() == Loss::kUnreachable);
}

TEST_CASE("a limit of zero is none") {
  Scene scene({.link = {}, .freeze = {}, .reconnect = {}});
  const LifeSigns signs{.beats = 7, .answers = 3};
  scene.look(signs);
  CHECK(scene.stay_silent(signs, kFrozenAfter));
  CHECK_FALSE(scene.stay_silent(signs, hours(1)));
  CHECK(scene.peer.state() == Life::kFrozen);
}

TEST_CASE("news of a peer's end counts at once, and the first reason is kept") {
  for (const Loss how : {Loss::kLeft, Loss::kDied, Loss::kClosed, Loss::kUnreachable,
                         Loss::kAltered, Loss::kFrozen}) {
    Scene scene;
    scene.look(kBeat);
    scene.peer.lose(how);
    CHECK(scene.peer.state() == Life::kGone);
    scene.peer.lose(how == Loss::kDied ? Loss::kLeft : Loss::kDied);
    CHECK(scene.peer.loss() == how);
    CHECK_FALSE(scene.stay_silent(kBeat, hours(1)));
    CHECK(scene.peer.loss() == how);
  }
}

TEST_CASE("a process that did not run itself does not blame its peers") {
  Scene scene;
  const LifeSigns signs{.beats = 7, .answers = 3};
  scene.look(signs);
  CHECK_FALSE(scene.look(signs, hours(1)));
  CHECK(scene.peer.silence() == 2 * Duration(kBeatInterval));
  CHECK(scene.peer.host_silence() == 2 * Duration(kBeatInterval));
}

TEST_CASE("a look that comes late counts in full up to two intervals") {
  Scene scene;
  scene.look(kBeat);
  scene.look(kBeat, kBeatInterval + kAlmost);
  CHECK(scene.peer.silence() == kBeatInterval + kAlmost);
}

}  // namespace
}  // namespace ronde::net
