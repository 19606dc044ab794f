#include "bindings/cli/job_traces.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "bindings/cli/launch/this_host.h"
#include "core/base/join_text.h"
#include "core/base/os/folders.h"
#include "timeline/recording/trace_paths.h"

namespace ronde {

void warn_of_merge(const MergeReport& report) {
  if (report.clock_error_ns > 0) {
    fmt::print(stderr, "ronde timeline: the clocks of the hosts agree to {:.0f} us\n",
               static_cast<double>(report.clock_error_ns) / 1000);
  }
  for (const std::string& path : report.truncated) {
    fmt::print(stderr, "ronde timeline: the end of {} is missing; merged what is there\n", path);
  }
}

namespace {

void remove_files(const std::vector<std::string>& files) {
  std::error_code ignored;
  for (const std::string& file : files) std::filesystem::remove(file, ignored);
}

/// The files of a recording that may have parts.
void append_files(std::vector<std::string>& files, const std::string& own_path) {
  const std::vector<std::string> found = trace_files(own_path);
  files.insert(files.end(), found.begin(), found.end());
}

void fetch_from(const FilesOfHosts& missing, const SshOptions& ssh) {
  for (const auto& [host, files] : missing) {
    const Status status = fetch_files(ssh, host, files);
    if (!status.ok()) fmt::print(stderr, "ronde run: {}\n", status.message());
  }
}

/// `what`: "4 ranks".
bool merge_into(const std::string& timeline, const std::vector<std::string>& traces,
                const std::string& what) {
  if (traces.empty()) return true;
  const auto report = merge_traces(traces, timeline);
  if (report.ok()) {
    warn_of_merge(*report);
    fmt::print(stderr, "ronde run: timeline of {} in {}\n", what, timeline);
  } else {
    fmt::print(stderr, "ronde run: cannot merge the timelines: {}\n", report.status().message());
  }
  return report.ok();
}

}  // namespace

void forget_traces(const std::string& timeline, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    remove_files(trace_files(rank_trace_path(timeline, rank)));
  }
}

void fetch_traces(const std::string& timeline, const LaunchOptions& options) {
  const std::string path = absolute_path(timeline);
  std::vector<std::string> traces;
  traces.reserve(static_cast<std::size_t>(options.size));
  for (int rank = 0; rank < options.size; ++rank) traces.push_back(rank_trace_path(path, rank));
  fetch_from(files_elsewhere(options.hosts, traces), options.ssh);
}

bool merge_job_traces(const std::string& timeline, int ranks) {
  std::vector<std::string> traces;
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t before = traces.size();
    append_files(traces, rank_trace_path(timeline, rank));
    if (traces.size() == before) missing.push_back(rank);
  }
  if (!missing.empty()) {
    const bool one = missing.size() == 1;
    fmt::print(stderr, "ronde run: {} {} left no timeline on this host\n", one ? "rank" : "ranks",
               join_text(missing, ", "));
  }
  return merge_into(timeline, traces,
                    fmt::format("{} ranks", ranks - static_cast<int>(missing.size())));
}

void forget_elastic_traces(const std::string& timeline) {
  for (const WorkerTracePath& trace : find_worker_traces(timeline)) {
    remove_files(trace_files(trace.path));
  }
  remove_files({epochs_trace_path(timeline)});
}

void fetch_elastic_traces(const std::string& timeline, const std::vector<EpochPart>& parts,
                          const SshOptions& ssh) {
  const std::string path = absolute_path(timeline);
  FilesOfHosts missing;
  for (const EpochPart& part : parts) {
    std::string file =
        worker_trace_path(path, static_cast<int>(part.worker), static_cast<int>(part.epoch));
    if (!is_there(file)) missing[part.host].push_back(std::move(file));
  }
  std::erase_if(missing, [](const auto& files) { return is_this_host(files.first); });
  fetch_from(missing, ssh);
}

bool merge_elastic_traces(const std::string& timeline) {
  std::vector<std::string> traces;
  std::set<int> workers, epochs;
  for (const WorkerTracePath& trace : find_worker_traces(timeline)) {
    append_files(traces, trace.path);
    workers.insert(trace.worker);
    epochs.insert(trace.epoch);
  }
  append_files(traces, epochs_trace_path(timeline));
  return merge_into(
      timeline, traces,
      fmt::format("{} worker{} in {} epoch{}", workers.size(), workers.size() == 1 ? "" : "s",
                  epochs.size(), epochs.size() == 1 ? "" : "s"));
}

}  // namespace ronde
