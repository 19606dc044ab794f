// Prints how the ranks of a job end, and at last why the job has failed.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "bindings/cli/launch/console.h"
#include "bindings/cli/launch/failure_report.h"
#include "bindings/cli/launch/messages.h"

namespace ronde {

/// Joins what a console holds of a rank's errors with how its process ended. Threads: one.
class RankEndings {
 public:
  explicit RankEndings(Console& console) : console_(console) {}

  /// Notes the end of a rank on that host, and prints its traceback or one line of it. `asked`: the
  /// job was being ended by then.
  void add(const std::string& host, const RankMessage& message, bool asked);
  /// Notes that something else than a rank has failed.
  void add(Mishap mishap) { report_.add(std::move(mishap)); }
  /// The end of a job that mpirun started. It tells nothing of single ranks; their tracebacks do.
  void add_ranks_of_mpirun(int wait_status);
  /// Prints what is left of ranks whose end nobody has told.
  void print_left();
  /// The rank that is the likeliest cause of a failure; null if all have ended well.
  [[nodiscard]] const RankEnd* cause() const { return report_.first(); }
  /// True if the cause is a rank's end, and no mishap.
  [[nodiscard]] bool blames_a_rank() const {
    return cause() != nullptr && report_.first_mishap() == nullptr;
  }
  /// Prints the traceback of cause() where it has not been, and the summary.
  void explain();
  /// How the ranks ended, in one sentence; may be empty.
  [[nodiscard]] std::string sentence() const { return report_.ends(); }
  /// True if lines of tracebacks were left out.
  [[nodiscard]] bool left_out() const noexcept { return report_.left_out(); }

 private:
  Console& console_;
  FailureReport report_;
};

}  // namespace ronde
