// How both ends of a connection agree to end it, whoever asks first.
#include "backends/net/peer/end_agreement.h"

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <random>

namespace ronde::net {
namespace {

/// One side, and the words on their way to it.
struct Side {
  explicit Side(bool dials) : agreement(dials) {}
  EndAgreement agreement;
  std::deque<EndWord> coming;
  bool busy = false;
  bool closed = false;
};

/// Delivers the next word to `to`; its answer goes to `from`.
void deliver(Side& to, Side& from) {
  const EndWord word = to.coming.front();
  to.coming.pop_front();
  if (to.closed) return;
  const auto answer = to.agreement.on_word(word, to.busy);
  REQUIRE(answer.ok());
  if (*answer) from.coming.push_back(**answer);
  to.closed = to.agreement.closing() || word == EndWord::kClose;
}

TEST_CASE("an idle connection ends once the peer agrees") {
  Side asks(true);
  Side other(false);
  other.coming.push_back(asks.agreement.ask());
  CHECK(asks.agreement.ending());
  deliver(other, asks);
  CHECK(other.agreement.granted());
  deliver(asks, other);
  CHECK(asks.closed);
  deliver(other, asks);
  CHECK(other.closed);
}

TEST_CASE("a busy peer refuses, and is asked again only after the connection was used") {
  Side asks(true);
  Side other(false);
  other.busy = true;
  other.coming.push_back(asks.agreement.ask());
  deliver(other, asks);
  deliver(asks, other);
  CHECK_FALSE(asks.agreement.ending());
  CHECK_FALSE(asks.agreement.may_ask());
  CHECK_FALSE(asks.agreement.use());
  CHECK(asks.agreement.may_ask());
}

TEST_CASE("a side that uses the connection before the answer keeps it") {
  Side asks(false);
  Side other(true);
  other.coming.push_back(asks.agreement.ask());
  const auto word = asks.agreement.use();
  REQUIRE(word == EndWord::kKeep);
  other.coming.push_back(*word);
  deliver(other, asks);
  CHECK(other.agreement.granted());
  deliver(asks, other);
  deliver(other, asks);
  CHECK_FALSE(other.agreement.granted());
  CHECK_FALSE(asks.closed);
  CHECK(asks.agreement.may_ask());
}

TEST_CASE("where both ask at once, one of the asks ends the connection") {
  Side dialer(true);
  Side acceptor(false);
  acceptor.coming.push_back(dialer.agreement.ask());
  dialer.coming.push_back(acceptor.agreement.ask());
  while (!dialer.coming.empty() || !acceptor.coming.empty()) {
    if (!dialer.coming.empty()) deliver(dialer, acceptor);
    if (!acceptor.coming.empty()) deliver(acceptor, dialer);
  }
  CHECK(dialer.closed);
  CHECK(acceptor.closed);
}

TEST_CASE("words out of turn are refused") {
  for (const EndWord word : {EndWord::kGrant, EndWord::kRefuse, EndWord::kClose}) {
    EndAgreement agreement(true);
    CHECK(agreement.on_word(word, false).status().code() == Code::kInternal);
  }
  CHECK(EndAgreement(true).on_word(static_cast<EndWord>(77), false).status().code() ==
        Code::kInternal);
}

/// One random step of `self`: it asks, begins or ends a use, or takes a word.
void random_step(Side& self, Side& peer, std::mt19937& random) {
  const auto choice = random() % 4;
  if (choice == 0 && !self.busy && !self.closed && self.agreement.may_ask()) {
    peer.coming.push_back(self.agreement.ask());
  } else if (choice == 1 && !self.closed && !self.busy) {
    if (const auto word = self.agreement.use()) peer.coming.push_back(*word);
    self.busy = true;
  } else if (choice == 2 && !self.agreement.granted()) {
    self.busy = false;
  } else if (!self.coming.empty()) {
    deliver(self, peer);
  }
}

TEST_CASE("in any order neither side waits for ever, and both close or none") {
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    Side dialer(true);
    Side acceptor(false);
    for (int step = 0; step < 40; ++step) {
      const bool first = random() % 2 == 0;
      random_step(first ? dialer : acceptor, first ? acceptor : dialer, random);
    }
    while (!dialer.coming.empty() || !acceptor.coming.empty()) {
      if (!dialer.coming.empty()) deliver(dialer, acceptor);
      if (!acceptor.coming.empty()) deliver(acceptor, dialer);
    }
    CAPTURE(seed);
    // The side that has granted learns of the end from its peer's last word, or its closed socket.
    const bool one_ended = dialer.closed || acceptor.closed;
    for (const Side* side : {&dialer, &acceptor}) {
      const bool may_end = side->closed || side->agreement.granted();
      CHECK(may_end == one_ended);
    }
  }
}

}  // namespace
}  // namespace ronde::net
