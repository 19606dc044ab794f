#include "bindings/cli/report_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/exit.h"
#include "timeline/report/diff.h"
#include "timeline/report/load.h"
#include "timeline/report/page.h"
#include "timeline/report/text_report.h"

namespace ronde {
namespace {

struct ReportRequest {
  std::vector<std::string> traces;
  std::string output = "timeline-report.html";
};

void show_progress(std::uint64_t done, std::uint64_t total) {
  const std::uint64_t percent = total == 0 ? 100 : 100 * done / total;
  fmt::print(stderr, "\rReading {} MB of traces: {} %{}", total >> 20, percent,
             done >= total ? "\n" : "");
}

Status write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (file) return {};
  return {Code::kUnavailable, fmt::format("cannot write the page {}", path)};
}

report::JobTrace load(const char* who, const std::vector<std::string>& traces) {
  report::Progress progress;
  if (::isatty(STDERR_FILENO) != 0) progress = show_progress;
  auto job = report::load_traces(traces, progress);
  if (!job.ok()) exit_usage(who, job.status());
  return std::move(job).value();
}

void run_report(const ReportRequest& request) {
  constexpr const char* kWho = "ronde timeline report";
  const report::JobTrace job = load(kWho, request.traces);
  const report::Analysis analysis = report::analyze(job);
  const auto findings = report::find_causes(job, analysis);
  const std::string text = report::text_report(job, analysis, findings);
  fmt::print("{}", text);
  const std::string page = report::html_page(job, analysis, findings, text);
  if (const Status status = write_page(request.output, page); !status.ok()) {
    exit_usage(kWho, status);
  }
  fmt::print("\nThe same with pictures: {}\n", request.output);
}

struct DiffRequest {
  std::string before;
  std::string after;
};

void run_diff(const DiffRequest& request) {
  constexpr const char* kWho = "ronde timeline diff";
  const report::JobTrace before = load(kWho, {request.before});
  const report::JobTrace after = load(kWho, {request.after});
  const report::Analysis old_steps = report::analyze(before);
  const report::Analysis new_steps = report::analyze(after);
  if (!old_steps.by_steps || !new_steps.by_steps) {
    exit_usage(kWho, {Code::kInvalidArgument,
                      fmt::format("{}: no steps are marked, so there is nothing to compare; mark "
                                  "them with ronde.mark_step()",
                                  old_steps.by_steps ? request.after : request.before)});
  }
  fmt::print("{}", report::text_of(report::compare({before, old_steps}, {after, new_steps})));
}

}  // namespace

void add_diff_command(CLI::App& timeline) {
  CLI::App* command = timeline.add_subcommand("diff", "Say what became slower between two runs");
  command->footer("Example:\n  ronde timeline diff monday.json tuesday.json\n");
  auto request = std::make_shared<DiffRequest>();
  command->add_option("BEFORE", request->before, "Merged trace of the first run")->required();
  command->add_option("AFTER", request->after, "Merged trace of the second run")->required();
  command->callback([request] { run_diff(*request); });
}

void add_report_command(CLI::App& timeline) {
  CLI::App* command =
      timeline.add_subcommand("report", "Say why training waits: who is late, what is slow");
  command->footer(
      "Examples:\n  ronde timeline report trace.json\n"
      "  ronde timeline report trace.rank*.json -o report.html\n"
      "Prints a text and writes one page, which needs no network.\n");
  auto request = std::make_shared<ReportRequest>();
  command->add_option("TRACE", request->traces, "A merged trace, or one of each rank")->required();
  command->add_option("-o,--output", request->output, "Where the page goes")->capture_default_str();
  command->callback([request] { run_report(*request); });
}

}  // namespace ronde
