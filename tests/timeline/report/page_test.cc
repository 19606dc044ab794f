#include <doctest/doctest.h>

#include "tests/timeline/read_json.h"
#include "tests/timeline/report/synthetic.h"
#include "timeline/report/reports.h"

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

}  // namespace ronde::report
