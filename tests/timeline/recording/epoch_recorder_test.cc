#include "timeline/recording/epoch_recorder.h"

#include <doctest/doctest.h>

#include "tests/timeline/read_json.h"

namespace ronde {
namespace {

/// The events of one phase and name.
std::vector<nlohmann::json> events_of(const nlohmann::json& trace, const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (const auto& event : trace) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

}  // namespace

TEST_CASE("epoch recorder: epochs, the ways between them, and workers are in the file at once") {
  const ScratchFolder scratch;
  auto recorder = EpochRecorder::open(scratch.file("t.json"), "ab12");
  REQUIRE(recorder.ok());
  recorder->add(WorkerEvent::kStarted, 1, 0, "pid 7");
  recorder->begin_epoch({1, {1, 2, 3}, ""});
  recorder->end_epoch(true);
  recorder->end_epoch(false);  // another worker asks for the next one
  recorder->add(WorkerEvent::kDied, 2, 1, "was \"killed\"");
  recorder->begin_epoch({2, {3, 1}, "worker 2 died"});
  const nlohmann::json trace = json_of(scratch.file("t.epochs.json"));
  REQUIRE(trace.is_array());
  CHECK(trace[0]["args"]["name"] == "epochs of the job");
  const auto head = parse_recording(trace[2].dump());
  REQUIRE(head);
  CHECK(head->launcher);
  CHECK(head->job == "ab12");
  CHECK(head->row() == kJobRow);
  const auto begins = events_of(trace, "B");
  REQUIRE(begins.size() == 3);
  CHECK(begins[0]["name"] == "epoch 1");
  CHECK(begins[0]["args"]["workers"] == "1,2,3");
  CHECK(begins[1]["name"] == "RECOVERY");
  CHECK(begins[2]["name"] == "epoch 2");
  CHECK(begins[2]["args"]["epoch"] == 2);
  CHECK(begins[2]["args"]["workers"] == "3,1");
  CHECK(begins[2]["args"]["why"] == "worker 2 died");
  CHECK(events_of(trace, "E").size() == 2);
  const auto moments = events_of(trace, "i");
  REQUIRE(moments.size() == 2);
  CHECK(moments[1]["name"] == "worker 2 died");
  CHECK(moments[1]["args"]["event"] == "died");
  CHECK(moments[1]["args"]["why"] == "was \"killed\"");
  recorder->close();
  CHECK(events_of(json_of(scratch.file("t.epochs.json")), "E").size() == 3);
}

TEST_CASE("epoch recorder: an epoch that ends by a change is followed by a change") {
  const ScratchFolder scratch;
  auto recorder = EpochRecorder::open(scratch.file("t.json"), "ab12");
  REQUIRE(recorder.ok());
  recorder->begin_epoch({1, {1}, ""});
  recorder->end_epoch(false);
  const auto begins = events_of(json_of(scratch.file("t.epochs.json")), "B");
  REQUIRE(begins.size() == 2);
  CHECK(begins[1]["name"] == "CHANGE OF WORKERS");
}

TEST_CASE("epoch recorder: a full disk ends the recording, not the job") {
  const ScratchFolder scratch;
  auto recorder = EpochRecorder::open(scratch.file("t.json"), "ab12");
  REQUIRE(recorder.ok());
  const SmallDisk full(content_of(scratch.file("t.epochs.json")).size() + 10);
  recorder->begin_epoch({1, {1}, ""});
  recorder->close();
  CHECK(json_of(scratch.file("t.epochs.json")).is_array());
}

}  // namespace ronde
