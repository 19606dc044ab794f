#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/cli/launch/reach_test.h"

namespace ronde {
namespace {

/// A trial of host c beside a job of a and b.
struct Played {
  std::vector<std::pair<std::string, AgentMessage>> sent;
  std::vector<std::pair<std::string, std::string>> ends;
  HostTrials trials{
      {.send =
           [this](const std::string& host, const std::string& bytes) {
             MessageReader reader;
             reader.feed(bytes);
             sent.emplace_back(host, *reader.next().value());
           },
       .on_end = [this](const std::string& host,
                        const std::string& missed) { ends.emplace_back(host, missed); },
       .interface = "",
       .start_timeout = std::chrono::seconds(60)}};

  Played() {
    trials.begin({"c", {"a", "b"}});
    const auto questions = take();
    REQUIRE(questions.size() == 3);
    for (const auto& [host, message] : questions) {
      CHECK(std::holds_alternative<ListenMessage>(message));
    }
  }
  std::vector<std::pair<std::string, AgentMessage>> take() { return std::exchange(sent, {}); }
  void listen() {
    for (const char* const host : {"a", "b", "c"}) {
      trials.on_listening(host, {1, std::string(host) + ":1"});
    }
  }
};

std::vector<std::string> places(const AgentMessage& message) {
  return std::get<ReachMessage>(message).places;
}

TEST_CASE("host trials: a host connects to the others, and they to it") {
  Played job;
  job.listen();
  const auto asked = job.take();
  REQUIRE(asked.size() == 3);
  CHECK(asked[0].first == "a");
  CHECK(places(asked[0].second) == std::vector<std::string>{"c:1"});
  CHECK(places(asked[1].second) == std::vector<std::string>{"c:1"});
  CHECK(asked[2].first == "c");
  CHECK(places(asked[2].second) == std::vector<std::string>{"a:1", "b:1"});
  job.trials.on_reached("a", {1, {}});
  job.trials.on_reached("c", {1, {}});
  CHECK(job.ends.empty());
  SUBCASE("all reach each other") {
    job.trials.on_reached("b", {1, {}});
    REQUIRE(job.ends.size() == 1);
    CHECK(job.ends[0] == std::pair<std::string, std::string>("c", ""));
  }
  SUBCASE("one does not") {
    job.trials.on_reached("b", {1, {"c:1 (no answer within 5 s)"}});
    REQUIRE(job.ends.size() == 1);
    CHECK(job.ends[0].second == "b does not reach c:1 (no answer within 5 s)");
  }
  SUBCASE("one is lost meanwhile") {
    job.trials.on_host_lost("b");
    REQUIRE(job.ends.size() == 1);
    CHECK(job.ends[0].second.empty());
  }
  CHECK(job.trials.deadline() == kForever);
}

TEST_CASE("host trials: who does not answer in time is named") {
  Played job;
  job.trials.on_listening("a", {1, "a:1"});
  job.trials.on_listening("c", {1, "c:1"});
  CHECK(job.trials.deadline() > now() + std::chrono::seconds(60));
  job.trials.on_time(job.trials.deadline());
  REQUIRE(job.ends.size() == 1);
  CHECK(job.ends[0].second == "b did not answer");
}

TEST_CASE("host trials: the trial of a lost host has no end") {
  Played job;
  job.trials.on_host_lost("c");
  job.listen();
  CHECK(job.ends.empty());
  CHECK(job.take().empty());
}

TEST_CASE("host trials: hosts that cannot listen are not tried") {
  Played job;
  for (const char* const host : {"a", "b", "c"}) job.trials.on_listening(host, {1, ""});
  REQUIRE(job.ends.size() == 1);
  CHECK(job.ends[0].second.empty());
}

}  // namespace
}  // namespace ronde
