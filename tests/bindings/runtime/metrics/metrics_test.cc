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
}

}  // namespace ronde::metrics
