// The history of an elastic job, as its launcher sees it: for its timeline and for `ronde doctor`,
// which it answers at a socket.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/event_loop.h"
#include "bindings/runtime/diagnosis/diagnostics_address.h"
#include "core/base/clock.h"
#include "core/elastic/director.h"
#include "timeline/recording/epoch_recorder.h"

namespace ronde {

/// A worker's part in one epoch.
struct EpochPart {
  elastic::WorkerId worker = 0;
  elastic::EpochId epoch = 0;
  std::string host;
};

/// Why a worker's process has ended.
enum class EndCause : std::uint8_t {
  kItself,
  kStopped,  ///< The launcher has stopped it.
  kJobEnds,  ///< The job was asked to end, or has failed.
};

/// Follows workers through epochs. Decides nothing. Threads: one.
class JobHistory {
 public:
  /// `job`: the beginning of its epochs' job ids. `timeline`: the user's path; empty: none.
  JobHistory(std::string job, const std::string& timeline);

  void on_start(elastic::WorkerId worker, const std::string& host);
  void on_started(elastic::WorkerId worker, int pid);
  void on_ready(elastic::WorkerId worker, const elastic::ReadyNote& note);
  void on_epoch(const elastic::BeginEpoch& epoch);
  void on_leaving(elastic::WorkerId worker);
  void on_finished(elastic::WorkerId worker);
  void on_ended(elastic::WorkerId worker, const elastic::WorkerEnd& end, EndCause cause);
  void on_host_lost(const std::string& host, const std::string& why);
  /// The director's newest sentence: it tells for what the job waits.
  void on_report(const std::string& text) { report_ = text; }
  /// The job has ended.
  void close();

  [[nodiscard]] const std::string& job() const noexcept { return job_; }
  /// All parts so far, for fetching their traces.
  [[nodiscard]] const std::vector<EpochPart>& parts() const noexcept { return parts_; }
  /// The answer to `ronde doctor`: a JSON object.
  [[nodiscard]] std::string status() const;

 private:
  enum class State : std::uint8_t { kStarting, kReady, kMember, kFinished };
  struct Worker {
    std::string host;
    int pid = 0;
    State state = State::kStarting;
    bool leaving = false;
    bool took_part = false;  ///< In some epoch.
    int rank = -1;           ///< In the last epoch that has begun; -1: it is not in it.
  };
  /// A worker that is gone.
  struct Gone {
    elastic::WorkerId worker = 0;
    elastic::EpochId epoch = 0;  ///< The last one that had begun.
    std::string why;
  };

  /// Null if there is no such worker any more.
  Worker* find(elastic::WorkerId worker);
  void record(WorkerEvent event, elastic::WorkerId worker, const std::string& why);
  void end_epoch(bool failed);
  void forget(elastic::WorkerId worker, const std::string& why);
  [[nodiscard]] std::string awaited() const;

  const std::string job_;
  std::optional<EpochRecorder> recorder_;
  elastic::EpochId epoch_ = 0;
  bool open_ = false;  ///< The epoch's workers take part in it, as far as is known.
  std::map<elastic::WorkerId, Worker> workers_;
  std::vector<Gone> gone_;
  std::vector<EpochPart> parts_;
  std::string report_;
};

/// The name of the socket.
struct LauncherAddress {
  int pid = 0;
  std::string job;  ///< The beginning of its epochs' job ids.

  /// "ronde-elastic/PID/JOB".
  [[nodiscard]] std::string text() const;
  /// Reads text() back; nothing where it is another name.
  static std::optional<LauncherAddress> parse(std::string_view text);
  /// True if the job id is that of one of its epochs.
  [[nodiscard]] bool owns(std::string_view job_id) const;
};

/// Answers with the history's status. Without a socket it does nothing. Threads: one.
class StatusSocket {
 public:
  /// `history` outlives it.
  explicit StatusSocket(const JobHistory& history);

  void watch(PollSet& set) const;
  [[nodiscard]] TimePoint deadline() const;
  /// Serves clients. Blocks: never.
  void on_time(TimePoint time);

 private:
  const JobHistory& history_;
  std::optional<diagnosis::ReplySocket> socket_;
};

}  // namespace ronde
