// The messages of an elastic job's agents.
#pragma once

#include <string>

#include "bindings/cli/launch/call_folder.h"
#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/elastic/agent_pool.h"
#include "bindings/cli/launch/elastic/epoch_announcer.h"
#include "bindings/cli/launch/elastic/host_trials.h"
#include "bindings/cli/launch/elastic/job_ending.h"
#include "bindings/cli/launch/elastic/job_hosts.h"
#include "bindings/cli/launch/elastic/job_story.h"
#include "bindings/cli/launch/elastic/worker_table.h"
#include "bindings/cli/launch/join_watch.h"
#include "bindings/cli/launch/messages.h"
#include "core/elastic/director.h"

namespace ronde {

/// Takes what agents report of their workers: brings the table up to date, tells the director and
/// the job's story, prints. Threads: one.
class WorkerReports {
 public:
  struct Parts {
    WorkerTable& workers;
    elastic::Director& director;
    JobStory& story;
    Console& console;
    AgentPool& agents;
    EpochAnnouncer& announcer;
    HostTrials& trials;
    JobEnding& ending;
    const JobHosts& hosts;
    const CallFolder& call_folder;
  };
  explicit WorkerReports(const Parts& parts) : to_(parts) {}

  void on_frame(const std::string& host, const Frame& frame);
  /// A worker's process has ended, or will never start.
  void on_ended(elastic::WorkerId worker, const elastic::WorkerEnd& end);
  [[nodiscard]] const JoinWatch& joins() const noexcept { return joins_; }

 private:
  void on_message(const std::string& host, const NoteMessage& note);
  void on_message(const std::string& host, const OutputMessage& output);
  void on_message(const std::string& host, const CannotStartMessage& message);
  void on_message(const std::string& host, const FrozenMessage& message);
  void on_message(const std::string& host, const ProbedMessage& answer);
  void on_message(const std::string& host, const AnswerMessage& answer);
  void on_started(const RankMessage& message);
  void on_exited(const RankMessage& message);
  std::string print_error(const RankMessage& message);
  void watch_end(elastic::WorkerId suspect);
  void take_note(elastic::WorkerId worker, const elastic::ReadyNote& note);
  void take_note(elastic::WorkerId worker, const elastic::HoldsNote& note);
  void take_note(elastic::WorkerId worker, const elastic::LeavingNote& note);
  void take_note(elastic::WorkerId worker, const elastic::FinishedNote& note);

  const Parts to_;
  std::string last_error_;  ///< Its traceback has been printed.
  JoinWatch joins_;
};

}  // namespace ronde
