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
  const LaunchOptions& job = options_.launch;
  if (job_runs_ || job.verbose) {
    console_.say(fmt::format("worker {} starts{}", start.worker, hosts_.where(start.host)));
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
  agents_.send(start.host, encode(rank));
}

void WorkerStarter::prepare(const std::string& host) {
  if (!agents_.has(host)) start_agent(host);
}

void WorkerStarter::start_agent(const std::string& host) {
  StartMessage job;
  job.directory = options_.launch.directory;
  job.command = options_.launch.command;
  job.environment = forwarded_environment();
  job.options = options_.launch.agents;
  job.elastic = true;
  job.slots = std::max(1, hosts_.slots(host));
  job.freeze_seconds = static_cast<int>(options_.freeze_timeout.count());
  agents_.start(host);
  for (const std::string& frame : options_.launch.call_frames) agents_.send(host, frame);
  agents_.send(host, encode(job));
}

}  // namespace ronde
