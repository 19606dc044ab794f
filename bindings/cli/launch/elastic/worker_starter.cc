#include "bindings/cli/launch/elastic/worker_starter.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings/cli/launch/elastic/worker_notes.h"
#include "bindings/cli/launch/job.h"

namespace ronde {

void WorkerStarter::add(const elastic::StartWorker& start, bool first) {
  queue_.add(start, first, now());
  if (first) ++first_workers_;
}

void WorkerStarter::on_epoch() {
  job_runs_ = true;
  queue_.on_epoch(now());
}

void WorkerStarter::on_time(TimePoint time) {
  for (const elastic::StartWorker& due : queue_.due(time)) start(due);
}

void WorkerStarter::start(const elastic::StartWorker& start) {
  const LaunchOptions& job = parts_.options.launch;
  if (job_runs_ || job.verbose) {
    parts_.console.say(
        fmt::format("worker {} starts{}", start.worker, parts_.hosts.where(start.host)));
  }
  RankStart rank{agent_rank(start.worker), {}};
  rank.environment = {fmt::format("{}={}", elastic::kWorkerVariable, start.worker),
                      "RONDE_ELASTIC=1", "RONDE_TRACEBACKS=full", "HOROVOD_ELASTIC=1",
                      "HOROVOD_HOSTNAME=" + start.host};
  if (!job_runs_) {  // for functions that never call init()
    rank.environment.push_back(fmt::format("HOROVOD_RANK={}", start.worker - 1));
    rank.environment.push_back(fmt::format("HOROVOD_SIZE={}", first_workers_));
  }
  rank.environment.insert(rank.environment.end(), job.environment.begin(), job.environment.end());
  prepare(start.host);
  parts_.agents.send(start.host, encode(rank));
}

void WorkerStarter::prepare(const std::string& host) {
  if (!parts_.agents.has(host)) start_agent(host);
}

void WorkerStarter::start_agent(const std::string& host) {
  StartMessage job;
  job.directory = parts_.options.launch.directory;
  job.command = parts_.options.launch.command;
  job.environment = forwarded_environment();
  job.elastic = true;
  job.slots = std::max(1, parts_.hosts.slots(host));
  job.freeze_seconds = static_cast<int>(parts_.options.freeze_timeout.count());
  parts_.agents.start(host);
  for (const std::string& frame : parts_.options.launch.call_frames)
    parts_.agents.send(host, frame);
  parts_.agents.send(host, encode(job));
}

}  // namespace ronde
