#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "bindings/cli/command_line.h"
#include "bindings/cli/commands.h"
#include "core/base/os/folders.h"
#include "timeline/recording/trace_paths.h"
#include "timeline/report/job_history.h"
#include "timeline/report/reports.h"

namespace ronde {
namespace {

constexpr const char* kWho = "ronde top";
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
  auto loaded = report::load_job(traces, {}, kTailBytes);
  if (!loaded.ok()) exit_usage(kWho, loaded.status());
  report::JobTrace& job = loaded->epochs.rbegin()->second;
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
  std::string text = loaded->elastic() ? report::workers_report(loaded->history) + "\n" : "";
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
      exit_usage(kWho, {Code::kUnavailable,
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

}  // namespace ronde
