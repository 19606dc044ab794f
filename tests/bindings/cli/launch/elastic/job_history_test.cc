#include "bindings/cli/launch/elastic/job_history.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/timeline/read_json.h"

namespace ronde {
namespace {

using elastic::WorkerId;

elastic::BeginEpoch epoch_of(elastic::EpochId epoch, const std::vector<WorkerId>& workers,
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
  explicit Told(const std::string& timeline = "") : history("ab12", timeline) {
    for (const WorkerId worker : {1U, 2U, 3U}) start(worker);
    history.on_epoch(epoch_of(1, {1, 2, 3}));
  }
  void start(WorkerId worker) {
    history.on_start(worker, "here");
    history.on_started(worker, static_cast<int>(100 + worker));
    history.on_ready(worker, {});
  }
  [[nodiscard]] nlohmann::json status() const { return nlohmann::json::parse(history.status()); }
  JobHistory history;
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

TEST_CASE("job history: the launcher's trace tells who died, left and joined, epoch by epoch") {
  const ScratchFolder scratch;
  Told told(scratch.file("t.json"));
  JobHistory& history = told.history;
  history.on_ended(2, {137, "(pid 102) was killed by signal 9 (Killed)"}, EndCause::kItself);
  history.on_ready(1, ready_after(1, "RankFailure"));
  history.on_ready(3, ready_after(1, "RankFailure"));
  history.on_epoch(epoch_of(2, {1, 3}, "worker 2 died"));
  told.start(4);
  history.on_ready(1, ready_after(2, ""));
  history.on_ready(3, ready_after(2, ""));
  history.on_epoch(epoch_of(3, {1, 3, 4}));
  history.on_leaving(3);
  history.on_ready(3, ready_after(3, ""));
  history.on_ended(3, {0, ""}, EndCause::kItself);
  history.on_ready(1, ready_after(3, ""));
  history.on_ready(4, ready_after(3, ""));
  history.on_epoch(epoch_of(4, {1, 4}));
  history.on_finished(1);
  history.on_ended(1, {0, ""}, EndCause::kItself);
  history.close();
  const nlohmann::json trace = json_of(scratch.file("t.epochs.json"));
  CHECK(names_of(trace) ==
        std::vector<std::string>{"worker 1 started", "worker 2 started", "worker 3 started",
                                 "epoch 1", "RECOVERY", "worker 2 died", "epoch 2",
                                 "worker 4 started", "CHANGE OF WORKERS", "epoch 3",
                                 "worker 4 joined", "CHANGE OF WORKERS", "worker 3 left", "epoch 4",
                                 "worker 1 finished"});
  CHECK(history.parts().size() == 10);
}

TEST_CASE("job history: the status names each worker's place, and those that are gone") {
  Told told;
  told.history.on_ended(2, {137, "was killed"}, EndCause::kItself);
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

TEST_CASE("job history: it says for what the launcher waits, while no epoch is open") {
  Told told;
  CHECK(told.status()["awaits"] == "");
  told.history.on_ready(1, ready_after(1, "RankFailure"));
  CHECK(told.status()["awaits"] == "worker 2, 3 to leave epoch 1");
  told.history.on_ready(2, ready_after(1, "RankFailure"));
  told.history.on_ready(3, ready_after(1, "RankFailure"));
  told.history.on_report("waiting for 1 worker more");
  CHECK(told.status()["awaits"] == "waiting for 1 worker more");
  told.history.on_epoch(epoch_of(2, {1, 2, 3}));
  CHECK(told.status()["awaits"] == "");
}

TEST_CASE("job history: a worker that was stopped because others had lost it has died") {
  const ScratchFolder scratch;
  Told told(scratch.file("t.json"));
  told.history.on_ended(2, {137, "was killed"}, EndCause::kStopped);
  told.history.on_ended(3, {143, "was killed"}, EndCause::kJobEnds);
  const auto names = names_of(json_of(scratch.file("t.epochs.json")));
  CHECK(names[names.size() - 2] == "worker 2 died");
  CHECK(names.back() == "worker 3 left");
}

TEST_CASE("job history: with a host all its workers die") {
  Told told;
  told.history.on_host_lost("elsewhere", "cut off");
  CHECK(told.status()["workers"].size() == 3);
  told.history.on_host_lost("here", "cut off");
  CHECK(told.status()["workers"].empty());
  CHECK(told.status()["gone"][0]["why"] == "host here is lost: cut off");
}

}  // namespace ronde
