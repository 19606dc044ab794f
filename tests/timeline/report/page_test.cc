#include <doctest/doctest.h>

#include "tests/timeline/read_json.h"
#include "tests/timeline/report/synthetic.h"
#include "timeline/report/reports.h"
#include "timeline/report/spans.h"

namespace ronde::report {
namespace {

std::string page_of(const Read& read, const std::string& text = "as text") {
  return html_page({read.job, read.analysis, read.findings, text});
}

nlohmann::json data_of(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace

TEST_CASE("page: it has no address to load anything from") {
  const std::string page = page_of(read_plan({}));
  CHECK(page.find("http://") == page.find("http://www.w3.org/2000/svg"));
  CHECK(page.find("https://") == std::string::npos);
  CHECK(page.find("/*SCRIPT*/") == std::string::npos);
}

TEST_CASE("page: its data has every rank, the verdict and steps to look at") {
  Plan plan;
  plan.late_us = [](int rank, int) { return rank == 2 ? 4000.0 : 0.0; };
  const auto data = data_of(page_of(read_plan(plan)));
  CHECK(data["ranks"].size() == 4);
  CHECK(data["findings"][0]["rank"] == 2);
  CHECK(data["bars"].size() == 39);
  REQUIRE(data["pictures"].size() >= 2);
  CHECK(data["pictures"][0]["ranks"].size() == 4);
  CHECK(data["pictures"][0]["ranks"][0]["operations"].size() == 2);
}

TEST_CASE("page: names cannot end the script or become elements") {
  Read read = read_plan({.steps = 3});
  read.job.notes = {"</script><script>alert(1)</script>"};
  const std::string page = page_of(read, "</pre><b>");
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(page.find("</pre><b>") == std::string::npos);
  CHECK(data_of(page)["notes"][0] == "</script><script>alert(1)</script>");
}

TEST_CASE("text report: it has the verdict, every rank, paths and tensors") {
  Plan plan;
  plan.late_us = [](int rank, int) { return rank == 2 ? 4000.0 : 0.0; };
  const Read read = read_plan(plan);
  const std::string text = text_report(read.job, read.analysis, read.findings);
  for (const char* part : {"Rank 2 (node1) holds the others up", "rank 3",
                           "ALLREDUCE ring over tcp", "allreduce.layer0.0", "39 steps"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("reports: spans are summed up by step and rank, in text, page and JSON") {
  Plan plan;
  plan.compute_us = 20'000;
  plan.load_us = 9000;
  const Read read = read_plan(plan);
  const std::string text = text_report(read.job, read.analysis, read.findings);
  const std::size_t table = text.find("Spans per step");
  REQUIRE(table != std::string::npos);
  CHECK(text.find("load ", table) != std::string::npos);
  CHECK(text.find("(outside, in no span)", table) != std::string::npos);
  const auto data = data_of(page_of(read));
  REQUIRE(data["spans"].size() == 1);
  CHECK(data["spans"][0]["name"] == "load");
  CHECK(data["spans"][0]["own_ms"].size() == 4);
  const auto json = nlohmann::json::parse(report_json(read.job, read.analysis, read.findings));
  CHECK(json["kind"] == "report");
  CHECK(json["steps"] == 39);
  CHECK(json["size"] == 4);
  CHECK(json["spans"][0]["name"] == "load");
  CHECK(json["spans"][0]["own_ms"][3].get<double>() == doctest::Approx(9.0));
  CHECK(json["spans"][0]["share"].get<double>() > 0.4);
  CHECK(json["unmarked_ms"].size() == 4);
  CHECK(json["findings"][0]["cause"] == "span");
  CHECK(json["findings"][0]["rank"].is_null());
  CHECK(json["ranks"][1]["outside_ms"].get<double>() > 15);
  CHECK(json["tensors"][0]["name"].get<std::string>().starts_with("allreduce.layer"));
}

TEST_CASE("reports: time in spans is their own, without waits and spans inside them") {
  JobTrace job;
  RankTrace& rank = job.ranks.emplace_back();
  const std::uint32_t outer = job.names.number_of("outer");
  const std::uint32_t inner = job.names.number_of("inner");
  rank.marks = {{.name = inner, .start_ns = 20, .end_ns = 50},
                {.name = outer, .start_ns = 10, .end_ns = 90},
                {.name = outer, .start_ns = 200, .end_ns = 210}};
  rank.waits = {{.name = 0, .start_ns = 60, .end_ns = 75}};
  Analysis analysis;
  analysis.steps.push_back(
      {.number = 1, .ranks = {{.start_ns = 0, .end_ns = 100}}, .blamed_ns = {}});
  const auto spans = span_times(job, analysis);
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].name == "outer");
  CHECK(spans[0].own_ns == std::vector<double>{35});
  CHECK(spans[0].whole_ns == std::vector<double>{80});
  CHECK(spans[1].own_ns == std::vector<double>{30});
}

}  // namespace ronde::report
