#include "bindings/cli/timeline_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "bindings/cli/exit.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/report_command.h"
#include "bindings/cli/view_command.h"
#include "timeline/merge.h"
#include "timeline/trace_file.h"

namespace ronde {
namespace {

struct MergeRequest {
  std::vector<std::string> traces;
  std::string output;
};

void warn(const MergeReport& report) {
  if (report.clock_error_ns > 0) {
    fmt::print(stderr, "ronde timeline: the clocks of the hosts agree to {:.0f} us\n",
               static_cast<double>(report.clock_error_ns) / 1000);
  }
  for (const std::string& path : report.truncated) {
    fmt::print(stderr, "ronde timeline: the end of {} is missing; merged what is there\n", path);
  }
}

void merge(const MergeRequest& request) {
  const auto report = merge_traces(request.traces, request.output, shown_progress());
  if (!report.ok()) exit_usage("ronde timeline merge", report.status());
  warn(*report);
  fmt::print("{}: {} events of {} traces\n", request.output, report->events, request.traces.size());
}

}  // namespace

void add_timeline_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("timeline", "Work on the traces of a job");
  command->require_subcommand(1);
  CLI::App* merge_command =
      command->add_subcommand("merge", "Merge the traces of all ranks onto one clock");
  merge_command->footer(
      "Example:\n  ronde timeline merge trace.rank*.json -o trace.json\n"
      "Perfetto and chrome://tracing open the result. The name selects the format: .gz is\n"
      "compressed, .pftrace and .pftrace.gz are Perfetto's own, and a name that ends in a slash\n"
      "is a folder with a file for each rank, as PyTorch's profiler writes them.\n");
  auto request = std::make_shared<MergeRequest>();
  merge_command->add_option("TRACE", request->traces, "Chrome traces, one of each rank")
      ->required();
  merge_command->add_option("-o,--output", request->output, "File for the merged trace")
      ->required();
  merge_command->callback([request] { merge(*request); });
  add_report_command(*command);
  add_diff_command(*command);
  add_view_command(*command);
}

void forget_traces(const std::string& timeline, int ranks) {
  std::error_code ignored;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::string& file : trace_files(timeline, rank)) {
      std::filesystem::remove(file, ignored);
    }
  }
}

void merge_job_traces(const std::string& timeline, int ranks) {
  std::vector<std::string> traces;
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::string> files = trace_files(timeline, rank);
    if (files.empty()) missing.push_back(rank);
    traces.insert(traces.end(), files.begin(), files.end());
  }
  if (!missing.empty()) {
    fmt::print(stderr, "ronde run: no timeline of rank {} is on this host\n",
               fmt::join(missing, ", "));
  }
  if (traces.empty()) return;
  const auto report = merge_traces(traces, timeline);
  if (report.ok()) {
    warn(*report);
    fmt::print(stderr, "ronde run: timeline of {} ranks in {}\n",
               ranks - static_cast<int>(missing.size()), timeline);
  } else {
    fmt::print(stderr, "ronde run: cannot merge the timelines: {}\n", report.status().message());
  }
}

}  // namespace ronde
