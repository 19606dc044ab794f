// The ends of a job's ranks, for people: which failed first, and how the others ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/launch/messages.h"
#include "bindings/cli/launch/traceback.h"
#include "core/base/clock.h"

namespace ronde {

/// How a rank's process has ended.
struct RankEnd {
  int rank = 0;
  int pid = 0;       ///< 0: mpirun has started it, and its status is mpirun's.
  std::string host;  ///< Empty: this one.
  int wait_status = 0;
  bool asked = false;                  ///< The job was being ended by then.
  bool printed = false;                ///< Its traceback is on the terminal already.
  TimePoint failed_at{};               ///< When its traceback began, or its process ended.
  TimePoint earlier_error = kForever;  ///< When the traceback of a rank that still runs began.
  std::optional<ErrorOutput> error;
  std::string last_line;  ///< Of its standard error; without a traceback.
};

/// A failure that is no end of a rank: a host is lost, or a rank cannot start.
struct Mishap {
  std::string sentence;         ///< "host b failed first: ssh was killed by signal 9 (Killed)".
  std::vector<int> lost_ranks;  ///< Nobody can tell how these ended.
  TimePoint at{};
  bool asked = false;  ///< The job was being ended by then.
};

/// Finds the rank or host that made the job fail. Threads: one.
class FailureReport {
 public:
  /// Notes a failure of a host.
  void add(Mishap mishap) { mishaps_.push_back(std::move(mishap)); }
  /// Notes the end. Returns the lines about it that are to be printed as this rank's now.
  std::vector<std::string> add(RankEnd end);
  /// The rank that is the likeliest cause; if no rank failed by itself, one that only reports
  /// another. Null if all have ended well.
  [[nodiscard]] const RankEnd* first() const;
  /// The failure that is a likelier cause than the end of any rank; null if there is none.
  [[nodiscard]] const Mishap* first_mishap() const;
  /// The traceback of first() if it has not been printed.
  std::vector<std::string> missing_traceback();
  /// Sentences that end the job's output. Empty if nothing has failed, or no rank has ended.
  [[nodiscard]] std::vector<std::string> summary() const;
  /// How the ranks of a job ended that was asked to end, in one sentence.
  [[nodiscard]] std::string ends() const { return others(nullptr); }
  /// True if add() left out lines.
  [[nodiscard]] bool left_out() const noexcept { return left_out_; }

 private:
  [[nodiscard]] std::vector<std::string> summary_of(const Mishap& mishap) const;
  [[nodiscard]] std::string lost_ranks() const;
  [[nodiscard]] std::string others(const RankEnd* cause) const;
  /// True if a traceback with this rank's error is on the terminal.
  [[nodiscard]] bool is_shown(const RankEnd& end) const;
  /// The rank that the reporter's error names; null if its end is unknown, or names another.
  [[nodiscard]] const RankEnd* reported_rank(const RankEnd& reporter) const;

  std::map<int, RankEnd> ends_;
  std::vector<Mishap> mishaps_;  // by time
  bool left_out_ = false;
};

/// "ValueError: bad batch 50 (train.py:5) [+2 lines]".
std::string one_line(const ErrorOutput& error);

/// "0-3 and 7", "ranks" or "rank" before it.
std::string rank_list(const std::vector<int>& ranks);

/// Counts the joins that agents report. Threads: one.
class JoinWatch {
 public:
  void on_exited(const ExitedMessage& rank) {
    ++ended_;
    joined_ = joined_ || rank.joined;
  }
  /// The sentence for a job of this command that has ended well. Empty if a rank has joined, if
  /// there was one rank, and for other commands than Python's scripts, which need not join.
  [[nodiscard]] std::string complaint(const std::vector<std::string>& command) const;

 private:
  int ended_ = 0;
  bool joined_ = false;
};

}  // namespace ronde
