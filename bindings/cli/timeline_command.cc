#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/job_traces.h"
#include "timeline/merging/merge.h"
#include "timeline/report/diff.h"
#include "timeline/report/faults.h"
#include "timeline/report/job_history.h"
#include "timeline/report/reports.h"

namespace ronde {
namespace {

struct ReportRequest {
  std::vector<std::string> traces;
  std::string output = "timeline-report.html";
  int epoch = 0;  ///< Of an elastic job; 0: the longest.
  bool json = false;
  bool writes_page = true;  ///< With JSON only if a file was named.
};

Status write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (file) return {};
  return {Code::kUnavailable, fmt::format("cannot write the page {}", path)};
}

report::JobTrace load(const char* who, const std::vector<std::string>& traces) {
  auto job = report::load_traces(traces, shown_progress());
  if (!job.ok()) exit_usage(who, job.status());
  return std::move(job).value();
}

constexpr const char* kReport = "ronde timeline report";

/// The input of a report.
struct Inputs {
  std::vector<std::string> traces;
  report::JobDumps dumps;  ///< May be empty.
};

Inputs read_inputs(std::vector<std::string> paths) {
  Inputs inputs;
  auto files = report::take_dumps(paths);
  if (!files.ok()) exit_usage(kReport, files.status());
  inputs.traces = std::move(paths);
  if (files->empty()) return inputs;
  auto dumps = report::load_dumps(*files);
  if (!dumps.ok()) exit_usage(kReport, dumps.status());
  inputs.dumps = std::move(dumps).value();
  return inputs;
}

/// The epoch that the report is about.
int shown_epoch(const report::LoadedJob& job, int asked) {
  if (asked == 0) return job.longest_epoch();
  if (job.epochs.contains(asked)) return asked;
  std::vector<int> known;
  for (const auto& [number, trace] : job.epochs) known.push_back(number);
  const std::string allowed =
      job.elastic() ? fmt::format("{}", fmt::join(known, ", ")) : "none, as the job is not elastic";
  exit_usage(kReport, {Code::kInvalidArgument, fmt::format("--epoch {}: there is no such epoch in "
                                                           "the traces; allowed: {}",
                                                           asked, allowed)});
}

/// The epochs of an elastic job, and which of them the rest of the report is about.
std::string history_text(const report::LoadedJob& job, int epoch) {
  return fmt::format("{}\nWhat follows is epoch {}{}\n\n", report::epochs_report(job.history),
                     epoch, job.epochs.size() > 1 ? "; --epoch shows another." : ".");
}

/// One report, for people and for programs.
struct Told {
  std::string text;
  std::string page;
  std::string json;
};

Told tell_of_traces(const ReportRequest& request, const std::vector<std::string>& traces,
                    std::vector<report::Finding> findings, std::string text) {
  auto loaded = report::load_job(traces, shown_progress());
  if (!loaded.ok()) exit_usage(kReport, loaded.status());
  const int epoch = shown_epoch(*loaded, request.epoch);
  const report::JobTrace& job = loaded->epochs.at(epoch);
  const report::Analysis analysis = report::analyze(job);
  const auto causes = report::find_causes(job, analysis);
  if (!text.empty()) text += '\n';
  if (loaded->elastic()) text += history_text(*loaded, epoch);
  text += report::text_report(job, analysis, causes);
  findings.insert(findings.end(), causes.begin(), causes.end());
  std::string page = report::html_page({job, analysis, findings, text, loaded->history});
  return {std::move(text), std::move(page), report::report_json(job, analysis, findings)};
}

Told tell(const ReportRequest& request) {
  const Inputs inputs = read_inputs(request.traces);
  if (inputs.dumps.empty()) return tell_of_traces(request, inputs.traces, {}, {});
  const auto findings = report::find_faults(inputs.dumps);
  std::string text = report::fault_report(inputs.dumps, findings);
  if (!inputs.traces.empty()) {
    return tell_of_traces(request, inputs.traces, findings, std::move(text));
  }
  std::string page = report::text_page("Ronde: why the job failed", text);
  return {std::move(text), std::move(page), report::fault_json(inputs.dumps, findings)};
}

void run_report(const ReportRequest& request) {
  if (request.writes_page) {
    const Status status = check_output_file("--output", request.output);
    if (!status.ok()) exit_usage(kReport, status);
  }
  const Told told = tell(request);
  fmt::print("{}", request.json ? told.json : told.text);
  if (!request.writes_page) return;
  if (const Status status = write_page(request.output, told.page); !status.ok()) {
    exit_usage(kReport, status);
  }
  if (!request.json) fmt::print("\nThe same as a page: {}\n", request.output);
}

struct DiffRequest {
  std::string before;
  std::string after;
  bool json = false;
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
  const report::Diff diff = report::compare({before, old_steps}, {after, new_steps});
  fmt::print("{}", request.json ? report::diff_json(diff) : report::text_of(diff));
}

}  // namespace

void add_diff_command(CLI::App& timeline) {
  CLI::App* command = timeline.add_subcommand("diff", "Show what became slower between two runs");
  command->footer("Example:\n  ronde timeline diff monday.json tuesday.json\n");
  auto request = std::make_shared<DiffRequest>();
  command->add_option("BEFORE", request->before, "Merged trace of the first run")->required();
  command->add_option("AFTER", request->after, "Merged trace of the second run")->required();
  command->add_flag("--json", request->json, "Print JSON, for programs: docs/timeline.md");
  command->callback([request] { run_diff(*request); });
}

void add_report_command(CLI::App& timeline) {
  CLI::App* command =
      timeline.add_subcommand("report", "Show why training waits: late ranks, slow operations");
  command->footer(
      "Examples:\n  ronde timeline report trace.json\n"
      "  ronde timeline report trace.rank*.json -o report.html\n"
      "  ronde timeline report dumps/ trace.json      (a job that failed: RONDE_DUMP_DIR=dumps)\n"
      "Prints a text and writes an HTML page, which needs no network.\n");
  auto request = std::make_shared<ReportRequest>();
  command
      ->add_option("TRACE", request->traces,
                   "A merged trace, or one of each rank; dumps of a failed job, or their folder")
      ->required();
  CLI::Option* output = command->add_option("-o,--output", request->output, "File for the page");
  output->capture_default_str();
  command->add_flag("--json", request->json,
                    "Print JSON, for programs: docs/timeline.md; writes the page only with -o");
  command
      ->add_option("--epoch", request->epoch,
                   "Epoch of an elastic job that the report is about; default: the longest")
      ->check(CLI::Range(1, 1'000'000'000));
  command->callback([request, output] {
    request->writes_page = !request->json || output->count() > 0;
    run_report(*request);
  });
}

namespace {

struct MergeRequest {
  std::vector<std::string> traces;
  std::string output;
};

/// A name that ends in a slash is a folder for a file of each rank.
Status check_merged(const std::string& output) {
  return output.ends_with('/') ? make_output_folder("--output", output)
                               : check_output_file("--output", output);
}

void merge(const MergeRequest& request) {
  if (const Status status = check_merged(request.output); !status.ok()) {
    exit_usage("ronde timeline merge", status);
  }
  const auto report = merge_traces(request.traces, request.output, shown_progress());
  if (!report.ok()) exit_usage("ronde timeline merge", report.status());
  warn_of_merge(*report);
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

}  // namespace ronde
