#include "bindings/runtime/metrics/metrics.h"

#include <doctest/doctest.h>

#include "tests/support/contains.h"

namespace ronde::metrics {
namespace {

using test::contains;

}  // namespace

TEST_CASE("Exposition: heads and values of labels are escaped as the format has it") {
  Exposition out(Labels{{"rank", "0"}});
  out.family("a_total", "counter", "back\\slash \"quoted\"\nline");
  out.sample(7, {{"job_id", "a\"b\\c\nd"}});
  CHECK(out.take() ==
        "# HELP a_total back\\\\slash \"quoted\"\\nline\n"
        "# TYPE a_total counter\n"
        "a_total{rank=\"0\",job_id=\"a\\\"b\\\\c\\nd\"} 7\n");
}

TEST_CASE("Exposition: a histogram's buckets add up, and the last one is its count") {
  DurationHistogram durations;
  durations.add(5'000);
  durations.add(2'000'000'000);
  durations.add(100'000'000'000);
  Exposition out(Labels{});
  out.family("t_seconds", "histogram", "Times.");
  out.histogram(durations, {{"kind", "send"}});
  const std::string text = out.take();
  CHECK(contains(text, "t_seconds_bucket{kind=\"send\",le=\"1e-05\"} 1\n"));
  CHECK(contains(text, "t_seconds_bucket{kind=\"send\",le=\"2.5\"} 2\n"));
  CHECK(contains(text, "t_seconds_bucket{kind=\"send\",le=\"+Inf\"} 3\n"));
  CHECK(contains(text, "t_seconds_sum{kind=\"send\"} 102.000005\n"));
  CHECK(contains(text, "t_seconds_count{kind=\"send\"} 3\n"));
}

TEST_CASE("metrics_text: data connections are counted, and the time to open them") {
  ConnectionCounts counts;
  counts.opened = 5;
  counts.closed = 3;
  counts.opening_ns = 2'500'000;
  counts.healed = 2;
  counts.corrupted = 1;
  counts.outage_ns = 3'500'000'000;
  const RankFacts facts{.version = "1", .job = "j", .host = "h", .rank = 1, .size = 4};
  const std::string text = metrics_text(facts, {.connections = &counts}, Meter());
  CHECK(contains(text, "ronde_connections_open{rank=\"1\"} 2\n"));
  CHECK(contains(text, "ronde_connections_opened_total{rank=\"1\"} 5\n"));
  CHECK(contains(text, "ronde_connections_closed_total{rank=\"1\"} 3\n"));
  CHECK(contains(text, "ronde_connection_opening_seconds_total{rank=\"1\"} 0.0025\n"));
  CHECK(contains(text, "ronde_connection_outages_total{rank=\"1\"} 2\n"));
  CHECK(contains(text, "ronde_connection_outage_seconds_total{rank=\"1\"} 3.5\n"));
  CHECK(contains(text, "ronde_corrupted_total{rank=\"1\"} 1\n"));
}

TEST_CASE("metrics_text: sums that were compared with float64 are counted, where there are any") {
  const RankFacts facts{.version = "1", .job = "j", .host = "h", .rank = 2, .size = 4};
  Meter meter;
  CHECK_FALSE(contains(metrics_text(facts, {}, meter), "ronde_mean"));
  meter.means.compared = 9;
  meter.means.beyond = 2;
  meter.means.worst_ulps = 1.5;
  const std::string text = metrics_text(facts, {}, meter);
  CHECK(contains(text, "ronde_mean_checks_total{rank=\"2\"} 9\n"));
  CHECK(contains(text, "ronde_mean_errors_total{rank=\"2\"} 2\n"));
  CHECK(contains(text, "ronde_mean_error_ulps{rank=\"2\"} 1.5\n"));
}

TEST_CASE("metrics_text: operations that got wrong data are errors of their own") {
  Meter meter;
  meter.submitted(0, 4);
  meter.ended(EndedOperation{.kind = 0, .bytes = 4, .code = Code::kCorrupted});
  const RankFacts facts{.version = "1", .job = "j", .host = "h", .rank = 0, .size = 2};
  CHECK(contains(
      metrics_text(facts, {}, meter),
      "ronde_operation_errors_total{rank=\"0\",kind=\"allreduce\",code=\"corrupted\"} 1\n"));
}

TEST_CASE("metrics_text: kinds that were never submitted are left out, errors are named") {
  Meter meter;
  meter.submitted(0, 4);
  meter.ended(EndedOperation{.kind = 0, .bytes = 4, .code = Code::kRankFailure});
  const std::string text =
      metrics_text({.version = "1", .job = "j", .host = "h", .rank = 3, .size = 4}, {}, meter);
  CHECK(contains(text,
                 "ronde_info{rank=\"3\",size=\"4\",host=\"h\",job_id=\"j\",version=\"1\"} 1\n"));
  CHECK(contains(
      text,
      "ronde_operation_errors_total{rank=\"3\",kind=\"allreduce\",code=\"rank failure\"} 1\n"));
  CHECK_FALSE(contains(text, "kind=\"broadcast\""));
  CHECK_FALSE(contains(text, "ronde_epoch"));
}

TEST_CASE(
    "metrics_text: a worker of an elastic job is known by its number, its recoveries counted") {
  Meter meter;
  meter.submitted(0, 4);
  DurationHistogram recoveries, changes;
  recoveries.add(30'000'000);
  recoveries.add(70'000'000);
  changes.add(5'000'000);
  const std::string text = metrics_text(
      {.version = "1", .job = "j", .host = "h", .rank = 1, .size = 3, .worker = 4, .epoch = 5},
      {.recoveries = &recoveries, .changes = &changes}, meter);
  CHECK(contains(text, "ronde_epoch{worker=\"4\"} 5\n"));
  CHECK(contains(text, "ronde_rank{worker=\"4\"} 1\n"));
  CHECK(contains(text, "ronde_size{worker=\"4\"} 3\n"));
  CHECK(contains(text, "ronde_recoveries_total{worker=\"4\"} 2\n"));
  CHECK(contains(text, "ronde_recovery_seconds_sum{worker=\"4\"} 0.1\n"));
  CHECK(contains(text, "ronde_recovery_seconds_count{worker=\"4\"} 2\n"));
  CHECK(contains(text, "ronde_worker_change_seconds_count{worker=\"4\"} 1\n"));
  CHECK(contains(text, "ronde_operations_submitted_total{worker=\"4\",kind=\"allreduce\"} 1\n"));
  CHECK_FALSE(contains(text, "rank=\""));
}

}  // namespace ronde::metrics
