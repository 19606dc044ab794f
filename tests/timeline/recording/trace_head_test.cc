#include "timeline/recording/trace_head.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("recording: what a header says is read back") {
  RecordingInfo info{3, 4, "node\"7", "boot", 1'000'000, 555, "job-1"};
  info.network_interface = "eth0";
  info.network_megabits = 25'000;
  const std::string header = format_header(info);
  const auto got = parse_recording(header.substr(header.rfind('\n') + 1));
  REQUIRE(got.has_value());
  CHECK(got->rank == 3);
  CHECK(got->size == 4);
  CHECK(got->host == "node\"7");
  CHECK(got->boot_id == "boot");
  CHECK(got->steady_start_ns == 1'000'000);
  CHECK(got->epoch_start_us == 555);
  CHECK(got->job == "job-1");
  CHECK(got->network_interface == "eth0");
  const auto old = parse_recording(
      R"({"args":{"start_time_since_epoch_in_micros":1,"network_interface":"ib0"}})");
  REQUIRE(old.has_value());
  CHECK(old->network_interface == "ib0");
  CHECK(got->network_megabits == 25'000);
}

TEST_CASE("recording: a worker's header says worker and epoch, and its row is the worker's") {
  RecordingInfo info{2, 4, "node7", "boot", 1, 2, "job-3"};
  info.worker = 5;
  info.epoch = 3;
  const std::string header = format_header(info);
  CHECK(header.find("worker 5 (rank 2 in epoch 3, node7)") != std::string::npos);
  const auto got = parse_recording(header.substr(header.rfind('\n') + 1));
  REQUIRE(got.has_value());
  CHECK(got->rank == 2);
  CHECK(got->worker == 5);
  CHECK(got->epoch == 3);
  CHECK(got->row() == 5);
  CHECK_FALSE(got->launcher);
}

TEST_CASE("recording: other events, and what is no JSON, say nothing of one") {
  CHECK_FALSE(parse_recording("{\"name\":\"x\"}").has_value());
  CHECK_FALSE(parse_recording("start_time_since_epoch_in_micros").has_value());
  CHECK_FALSE(parse_recording("{\"start_time_since_epoch_in_micros\":1}").has_value());
}

TEST_CASE("recording: types that are wrong are left at their defaults") {
  const auto got = parse_recording(
      "{\"args\":{\"start_time_since_epoch_in_micros\":7,\"rank\":\"x\",\"host\":1}}");
  REQUIRE(got.has_value());
  CHECK(got->rank == -1);
  CHECK(got->host.empty());
  CHECK(got->epoch_start_us == 7);
}

}  // namespace ronde
