// The start of an elastic job's workers.
#pragma once

#include <string>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/elastic/elastic_launcher.h"
#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/elastic/start_queue.h"

namespace ronde {

/// Starts workers on their hosts, where agents are started first. Threads: one.
class WorkerStarter {
 public:
  /// All outlive it.
  WorkerStarter(const ElasticOptions& options, const JobHosts& hosts, AgentPool& agents,
                Console& console)
      : options_(options), hosts_(hosts), agents_(agents), console_(console) {}

  /// Starts it soon. `first`: it is one of the job's first workers.
  void add(const elastic::StartWorker& start, bool first);
  /// Starts the host's agent if there is none.
  void prepare(const std::string& host);
  /// True if the worker waited; it will not start.
  bool remove(elastic::WorkerId worker) { return queue_.remove(worker); }
  void remove_host(const std::string& host) { queue_.remove_host(host); }
  void clear() noexcept { queue_.clear(); }
  /// An epoch has begun.
  void on_epoch();

  [[nodiscard]] TimePoint deadline() const noexcept { return queue_.deadline(); }
  /// Starts the workers that are due.
  void on_time(TimePoint time);

 private:
  void start(const elastic::StartWorker& start);
  void start_agent(const std::string& host);

  const ElasticOptions& options_;
  const JobHosts& hosts_;
  AgentPool& agents_;
  Console& console_;
  StartQueue queue_;
  int first_workers_ = 0;
  bool job_runs_ = false;  ///< There was an epoch.
};

}  // namespace ronde
