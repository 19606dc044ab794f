// The terminal of a launcher.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "bindings/cli/launch/output.h"
#include "bindings/cli/launch/poll_set.h"
#include "core/base/clock.h"

namespace ronde {

/// Prints the output of all ranks and the launcher's own lines. Threads: one.
class Console {
 public:
  /// Also writes each rank's output to a file. Errors: kInvalidArgument naming the folder.
  Status keep_files(const std::filesystem::path& directory, int ranks, bool append) {
    return files_.open(directory, ranks, append);
  }
  /// A piece of a rank's output; stream 1 or 2.
  void pass_on(int rank, int stream, std::string_view bytes);
  /// A line of the launcher's own, on standard error.
  void say(const std::string& text) { error_.own_line("ronde run: " + text); }
  /// Says it below all that the ranks have written.
  void say_after_output(const std::string& text);

  /// Writes when the destinations are ready. Calls `on_gone` if nobody reads standard output.
  void watch(PollSet& set, const std::function<void()>& on_gone);
  /// True while too much waits for a destination: ranks should be held up then.
  [[nodiscard]] bool stuck() const noexcept {
    return output_.queue().full() || error_.queue().full();
  }
  [[nodiscard]] bool empty() const noexcept {
    return output_.queue().empty() && error_.queue().empty();
  }
  /// Gives up what a destination does not take.
  void abandon_stuck() noexcept;
  void flush_partial();

  /// The time at which unfinished lines are printed.
  [[nodiscard]] TimePoint deadline() const noexcept { return partial_deadline_; }
  void on_time(TimePoint time);

 private:
  Destination output_{STDOUT_FILENO};
  Destination error_{STDERR_FILENO};
  RankFiles files_;
  TimePoint partial_deadline_ = kForever;
};

}  // namespace ronde
