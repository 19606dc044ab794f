#include "bindings/cli/launch/reach_test.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <vector>

#include "bindings/cli/launch/this_host.h"

namespace ronde {
namespace {

/// The answers of a test that runs until it has none open.
struct Played {
  std::vector<ReachedMessage> answers;
  ReachTest test{[this](const std::string& bytes) {
    MessageReader reader;
    reader.feed(bytes);
    answers.push_back(std::get<ReachedMessage>(reader.next().value().value()));
  }};

  void run(std::size_t count) {
    const TimePoint end = now() + std::chrono::seconds(10);
    while (answers.size() < count && now() < end) {
      PollSet set;
      test.watch(set);
      set.wait(end);
    }
    REQUIRE(answers.size() == count);
  }
};

std::string place(int port) { return join_host_port("127.0.0.1", port); }

TEST_CASE("reach test: tells the places that it cannot reach, with the reason") {
  Played other, played;
  const int open = other.test.listen("127.0.0.1").value();
  const int closed = free_port("127.0.0.1").value();
  played.test.connect({7, {place(open), place(closed), "nowhere"}});
  played.run(1);
  CHECK(played.answers[0].trial == 7);
  REQUIRE(played.answers[0].missed.size() == 2);
  CHECK(played.answers[0].missed[0] == "nowhere (no address and port)");
  CHECK(played.answers[0].missed[1] == place(closed) + " (Connection refused)");
}

TEST_CASE("reach test: listens for a while, and answers at once where nothing is asked") {
  Played other, played;
  const int port = other.test.listen("127.0.0.1").value();
  CHECK(other.test.deadline() != kForever);
  other.test.on_time(other.test.deadline());
  CHECK(other.test.deadline() == kForever);
  played.test.connect({1, {}});
  CHECK(played.answers.size() == 1);
  played.test.connect({2, {place(port)}});
  played.run(2);
  CHECK(played.answers[1].missed.size() == 1);
  CHECK_FALSE(played.test.listen("no address").ok());
}

}  // namespace
}  // namespace ronde
