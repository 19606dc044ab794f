// Two ends of a connection that agree, or do not.
#include "backends/net/transport/rest_agreement.h"

#include <doctest/doctest.h>

#include <memory>

namespace ronde::net {
namespace {

struct End {
  std::shared_ptr<ConnectionBudget> budget =
      std::make_shared<ConnectionBudget>(0, std::make_shared<ConnectionCounts>());
  RestAgreement rest{CountedConnection(budget)};
  bool idle = true;
  bool closed = false;

  /// Takes the other's word, if it has one.
  void hear(End& other) {
    if (other.rest.has_word()) closed = rest.take(other.rest.take_word(), idle) || closed;
    if (idle) rest.answer();
  }
};

TEST_CASE("the one that asked closes once the other agrees") {
  End one;
  End other;
  one.rest.ask();
  CHECK(one.rest.is_under_way());
  other.hear(one);
  CHECK(other.rest.is_agreed());
  one.hear(other);
  CHECK(one.closed);
  CHECK_FALSE(other.closed);
}

TEST_CASE("a peer that has a use for the connection answers later") {
  End one;
  End other;
  other.idle = false;
  one.rest.ask();
  other.hear(one);
  CHECK_FALSE(other.rest.has_word());
  other.idle = true;
  other.rest.answer();
  one.hear(other);
  CHECK(one.closed);
}

TEST_CASE("a rank that uses it again refuses, and the other stays too") {
  End one;
  End other;
  one.rest.ask();
  other.hear(one);
  one.idle = false;
  one.hear(other);
  CHECK_FALSE(one.closed);
  CHECK_FALSE(one.rest.is_under_way());
  one.rest.note_received();  // the refusal is told all the same
  other.hear(one);
  CHECK_FALSE(other.rest.is_under_way());
}

TEST_CASE("data ends the matter on both sides") {
  End one;
  End other;
  other.idle = false;
  one.rest.ask();
  other.hear(one);
  other.rest.note_sent();
  one.rest.note_received();
  other.idle = true;
  other.rest.answer();
  CHECK_FALSE(other.rest.has_word());
  CHECK_FALSE(one.rest.is_under_way());
}

TEST_CASE("data of a rank that has agreed changes nothing: the other decides") {
  End one;
  End other;
  one.rest.ask();
  other.hear(one);
  other.rest.note_sent();
  CHECK(other.rest.is_agreed());
  one.hear(other);
  CHECK(one.closed);
}

TEST_CASE("both ask at once, and both may close") {
  End one;
  End other;
  one.rest.ask();
  other.rest.ask();
  const ChunkKind first = one.rest.take_word();
  const ChunkKind second = other.rest.take_word();
  CHECK_FALSE(one.rest.take(second, true));
  CHECK_FALSE(other.rest.take(first, true));
  one.rest.answer();
  other.rest.answer();
  one.hear(other);
  CHECK(one.closed);
}

}  // namespace
}  // namespace ronde::net
