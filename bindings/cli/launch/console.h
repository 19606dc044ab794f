// The terminal of a launcher.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/launch/held_errors.h"
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
  /// Begins each line of a rank with the time.
  void show_times() noexcept {
    output_.show_times();
    error_.show_times();
  }
  /// Prints tracebacks at once and whole, instead of holding them back.
  void hold_nothing() { held_.hold_nothing(); }
  /// A piece of a rank's output; stream 1 or 2.
  void pass_on(int rank, int stream, std::string_view bytes);
  /// Lines of a rank's standard error that were held back, or stand for such lines.
  void print(int rank, const std::vector<std::string>& lines);
  /// Text of a rank's standard error that was held back.
  void pass_on_held(int rank, std::string_view text) { error_.feed(rank, text); }
  /// The errors that are held back.
  [[nodiscard]] HeldErrors& held() noexcept { return held_; }
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

  /// The time at which unfinished lines, or tracebacks, are printed.
  [[nodiscard]] TimePoint deadline() const noexcept {
    return std::min(partial_deadline_, held_.deadline());
  }
  void on_time(TimePoint time);

 private:
  void print_held(int rank, const std::string& text);

  Destination output_{STDOUT_FILENO};
  Destination error_{STDERR_FILENO};
  RankFiles files_;
  HeldErrors held_;
  TimePoint partial_deadline_ = kForever;
};

}  // namespace ronde
