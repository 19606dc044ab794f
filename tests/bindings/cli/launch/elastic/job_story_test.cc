#include "bindings/cli/launch/elastic/job_story.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/timeline/read_json.h"

namespace ronde {
namespace {

using elastic::WorkerId;

elastic::BeginEpoch story_epoch(elastic::EpochId epoch, const std::vector<WorkerId>& workers,
                                const std::string& why = "") {
  elastic::BeginEpoch begun{epoch, {}, why};
  for (const WorkerId worker : workers) begun.workers.push_back({worker, "here", true});
  return begun;
}

elastic::ReadyNote ready_after(elastic::EpochId epoch, const std::string& why) {
  elastic::ReadyNote note;
  note.last_epoch = epoch;
  note.why = why;
  return note;
}

/// A job of three workers in epoch 1.
struct Told {
  explicit Told(const std::string& timeline = "") : story("ab12", timeline) {
    for (const WorkerId worker : {1U, 2U, 3U}) start(worker);
    story.on_epoch(story_epoch(1, {1, 2, 3}));
  }
  void start(WorkerId worker) {
    story.on_start(worker, "here");
    story.on_started(worker, static_cast<int>(100 + worker));
    story.on_ready(worker, {});
  }
  [[nodiscard]] nlohmann::json status() const { return nlohmann::json::parse(story.status()); }
  JobStory story;
};

/// "worker 2 died", "epoch 1", ... in their order.
std::vector<std::string> names_of(const nlohmann::json& trace) {
  std::vector<std::string> names;
  for (const auto& event : trace) {
    if (event["ph"] == "B" || event["ph"] == "i") names.push_back(event["name"]);
  }
  return names;
}

}  // namespace

TEST_CASE("job story: the launcher's trace tells who died, left and joined, epoch by epoch") {
  const ScratchFolder scratch;
  Told told(scratch.file("t.json"));
  JobStory& story = told.story;
  story.on_ended(2, {137, "(pid 102) was killed by signal 9 (Killed)"}, EndCause::kItself);
  story.on_ready(1, ready_after(1, "RankFailure"));
  story.on_ready(3, ready_after(1, "RankFailure"));
  story.on_epoch(story_epoch(2, {1, 3}, "worker 2 died"));
  told.start(4);
  story.on_ready(1, ready_after(2, ""));
  story.on_ready(3, ready_after(2, ""));
  story.on_epoch(story_epoch(3, {1, 3, 4}));
  story.on_leaving(3);
  story.on_ready(3, ready_after(3, ""));
  story.on_ended(3, {0, ""}, EndCause::kItself);
  story.on_ready(1, ready_after(3, ""));
  story.on_ready(4, ready_after(3, ""));
  story.on_epoch(story_epoch(4, {1, 4}));
  story.on_finished(1);
  story.on_ended(1, {0, ""}, EndCause::kItself);
  story.close();
  const nlohmann::json trace = json_of(scratch.file("t.epochs.json"));
  CHECK(names_of(trace) ==
        std::vector<std::string>{"worker 1 started", "worker 2 started", "worker 3 started",
                                 "epoch 1", "RECOVERY", "worker 2 died", "epoch 2",
                                 "worker 4 started", "CHANGE OF WORKERS", "epoch 3",
                                 "worker 4 joined", "CHANGE OF WORKERS", "worker 3 left", "epoch 4",
                                 "worker 1 finished"});
  CHECK(story.parts().size() == 10);
}

TEST_CASE("job story: the status names each worker's place, and those that are gone") {
  Told told;
  told.story.on_ended(2, {137, "was killed"}, EndCause::kItself);
  const nlohmann::json status = told.status();
  CHECK(status["job"] == "ab12");
  CHECK(status["epoch"] == 1);
  CHECK(status["open"] == false);
  CHECK(status["workers"].size() == 2);
  CHECK(status["workers"][1]["worker"] == 3);
  CHECK(status["workers"][1]["rank"] == 2);
  CHECK(status["workers"][1]["pid"] == 103);
  CHECK(status["gone"][0]["worker"] == 2);
  CHECK(status["gone"][0]["why"] == "was killed");
}

TEST_CASE("job story: it says for what the launcher waits, while no epoch is open") {
  Told told;
  CHECK(told.status()["awaits"] == "");
  told.story.on_ready(1, ready_after(1, "RankFailure"));
  CHECK(told.status()["awaits"] == "worker 2, 3 to leave epoch 1");
  told.story.on_ready(2, ready_after(1, "RankFailure"));
  told.story.on_ready(3, ready_after(1, "RankFailure"));
  told.story.on_report("waiting for 1 worker more");
  CHECK(told.status()["awaits"] == "waiting for 1 worker more");
  told.story.on_epoch(story_epoch(2, {1, 2, 3}));
  CHECK(told.status()["awaits"] == "");
}

TEST_CASE("job story: a worker that was stopped because others had lost it has died") {
  const ScratchFolder scratch;
  Told told(scratch.file("t.json"));
  told.story.on_ended(2, {137, "was killed"}, EndCause::kStopped);
  told.story.on_ended(3, {143, "was killed"}, EndCause::kJobEnds);
  const auto names = names_of(json_of(scratch.file("t.epochs.json")));
  CHECK(names[names.size() - 2] == "worker 2 died");
  CHECK(names.back() == "worker 3 left");
}

TEST_CASE("job story: with a host all its workers die") {
  Told told;
  told.story.on_host_lost("elsewhere", "cut off");
  CHECK(told.status()["workers"].size() == 3);
  told.story.on_host_lost("here", "cut off");
  CHECK(told.status()["workers"].empty());
  CHECK(told.status()["gone"][0]["why"] == "host here is lost: cut off");
}

}  // namespace ronde
