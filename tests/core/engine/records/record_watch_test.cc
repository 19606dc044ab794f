#include "core/engine/records/record_watch.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

using std::chrono::seconds;

constexpr Duration kWarning = seconds(10);
constexpr Duration kError = seconds(25);

/// A ring with operations that began at `start`, and a watch of it.
struct WatchFixture {
  RecordTicket begin(const OperationFacts& facts, bool agreed, bool started) {
    const RecordTicket ticket = ring.begin(facts);
    if (agreed) ring.reach(ticket, OperationStage::kAgreed, start);
    if (started) ring.reach(ticket, OperationStage::kStarted, start);
    return ticket;
  }
  std::vector<LateRecord> look(Duration after) { return watch.look(ring, start + after); }

  OperationRing ring;
  TimePoint start = now();
  RecordWatch watch{{.warning = kWarning, .error = kError}, start};
};

}  // namespace

TEST_CASE_FIXTURE(WatchFixture,
                  "RecordWatch: moving data is late after the limit, again and again") {
  const RecordTicket ticket = begin({.name = "w"}, true, true);
  CHECK(look(seconds(9)).empty());
  const auto late = look(seconds(11));
  REQUIRE(late.size() == 1);
  CHECK(late[0].record.name == "w");
  CHECK(late[0].late_ns / 1'000'000'000 == 11);
  CHECK_FALSE(late[0].over_limit);
  CHECK(look(seconds(20)).empty());
  CHECK(look(seconds(22)).size() == 1);
  const auto over = look(seconds(26));
  REQUIRE(over.size() == 1);
  CHECK(over[0].over_limit);
  CHECK(look(seconds(27)).empty());
  ring.end(ticket, Code::kOk, start);
  CHECK(look(seconds(60)).empty());
}

TEST_CASE_FIXTURE(WatchFixture, "RecordWatch: operations that move as one come as one") {
  for (const char* name : {"a", "b", "c"}) begin({.name = name}, true, true);
  const auto late = look(seconds(11));
  REQUIRE(late.size() == 1);
  CHECK(late[0].record.name == "a");
  CHECK(late[0].others == 2);
  CHECK(look(seconds(12)).empty());
}

TEST_CASE_FIXTURE(WatchFixture, "RecordWatch: a raw group's call is late from its beginning on") {
  const RecordTicket reserved = ring.reserve("group of ranks 0,1", -1);
  (void)ring.begin_in(reserved, {.kind = 0, .call = 1}, start);
  REQUIRE(look(seconds(11)).size() == 1);
}

TEST_CASE_FIXTURE(WatchFixture, "RecordWatch: it leaves time for the negotiation's own warning") {
  begin({.name = "w"}, false, false);
  CHECK(look(seconds(14)).empty());
  SUBCASE("which came") {
    watch.negotiation_warned(start + seconds(10));
    CHECK(look(seconds(17)).empty());
    CHECK(look(seconds(29)).empty());
    CHECK(look(seconds(31)).size() == 1);
  }
  SUBCASE("which never came") { CHECK(look(seconds(17)).size() == 1); }
}

TEST_CASE_FIXTURE(WatchFixture, "RecordWatch: messages, join and work in a queue may wait") {
  begin({.kind = kRecvKind}, false, false);
  begin({.kind = kSendKind}, false, false);
  begin({.kind = static_cast<int>(Collective::kJoin)}, false, false);
  begin({.name = "next"}, true, false);
  CHECK(look(seconds(100)).empty());
}

TEST_CASE("RecordWatch: without limits it is never due") {
  const TimePoint start{};
  CHECK(RecordWatch({}, start).next_look() == kForever);
  CHECK(RecordWatch({.warning = kWarning}, start).next_look() == start + kWarning / 4);
  CHECK(RecordWatch({.error = kError}, start).next_look() == start + seconds(5));
}

}  // namespace ronde
