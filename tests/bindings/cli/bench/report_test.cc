// Statistics and the rows that scripts read.
#include "bindings/cli/bench/report.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bindings/cli/bench/contender.h"

namespace ronde::bench {
namespace {

TEST_CASE("a row has exactly the columns of the contract, in their order") {
  const Row row{.system = "ronde",
                .collective = "allreduce",
                .algorithm = "shm",
                .np = 2,
                .bytes = 4096,
                .dtype = "float32",
                .p50_us = 1.5,
                .p99_us = 2.5,
                .algbw_gbps = 2.7,
                .busbw_gbps = 2.7,
                .of_memcpy = 0.5};
  const std::string text = to_json(row);
  const auto line = nlohmann::ordered_json::parse(text);
  std::vector<std::string> columns;
  for (const auto& [column, value] : line.items()) columns.push_back(column);
  CHECK(columns == std::vector<std::string>{"system", "collective", "algorithm", "np", "bytes",
                                            "dtype", "p50_us", "p99_us", "algbw_gbps", "busbw_gbps",
                                            "correct"});
  CHECK(line["system"] == "ronde");
  CHECK(line["bytes"] == 4096);
  CHECK(line["p50_us"] == 1.5);
  CHECK(line["correct"] == true);
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("a compressed row says besides what travelled, how long it took, and the error") {
  Row row;
  row.np = 2;
  row.bytes = 4000;
  row.compression.emplace();
  row.compression->facts = {
      .wire_bytes = 1000, .compress_ns = 5000, .wire_ns = 6000, .decompress_ns = 7000};
  row.compression->error = 0.25;
  row.compression->of_dense = 3;
  const auto line = nlohmann::json::parse(to_json(row));
  CHECK(line["wire_bytes"] == 1000);
  CHECK(line["ratio"] == 4);
  CHECK(line["compress_us"] == 5);
  CHECK(line["wire_us"] == 6);
  CHECK(line["decompress_us"] == 7);
  CHECK(line["error_norm"] == 0.25);
  CHECK(line["of_dense"] == 3);
}

TEST_CASE("numbers stand below their headings, whatever the system's name") {
  std::FILE* const table = std::tmpfile();
  auto report = Report::open("", table);
  Row row;
  row.p50_us = 12.34;
  for (const char* system : {"ronde", "ronde-compressed"}) {
    row.system = system;
    report->add(row);
  }
  std::rewind(table);
  std::vector<std::size_t> ends;
  for (char line[256]; std::fgets(line, sizeof line, table) != nullptr;) {
    const std::string text = line;
    ends.push_back(ends.empty() ? text.find("p50 us") + 6 : text.find("12.34") + 5);
  }
  std::fclose(table);
  CHECK(ends == std::vector<std::size_t>(3, ends.front()));
}

TEST_CASE("bytes are written for people") {
  CHECK(human_bytes(0) == "0");
  CHECK(human_bytes(1000) == "1000");
  CHECK(human_bytes(4096) == "4 K");
  CHECK(human_bytes(1'572'864) == "1.5 M");
  CHECK(human_bytes(std::size_t{3} << 30) == "3 G");
}

TEST_CASE("a file that cannot be written is refused, naming it") {
  const auto report = Report::open("/nonexistent/rows.jsonl", stdout);
  CHECK(report.status().code() == Code::kInvalidArgument);
  CHECK(report.status().message().find("/nonexistent/rows.jsonl") != std::string::npos);
}

TEST_CASE("the summary of samples is their median and 99th percentile") {
  std::vector<double> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0);
  CHECK(summarize(samples).p50_us == 50.0);
  CHECK(summarize(samples).p99_us == 99.0);
  CHECK(summarize({7.0}).p50_us == 7.0);
  CHECK(summarize({7.0}).p99_us == 7.0);
}

TEST_CASE("small operations are repeated more often, none less than asked") {
  CHECK(effort_for(4, 20).repetitions >= 100);
  CHECK(effort_for(4, 20).burst > 1);
  CHECK(effort_for(std::size_t{1} << 24, 20).repetitions == 20);
  CHECK(effort_for(std::size_t{1} << 24, 20).burst == 1);
  CHECK(effort_for(4, 5000).repetitions == 5000);
}

}  // namespace
}  // namespace ronde::bench
