// Tracebacks on the ranks' standard error, which are printed once it is known how the ranks end.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace ronde {

/// Finds lines of the log that another rank has just written. Threads: one.
class RepeatedLogs {
 public:
  /// True if another rank wrote the same line, but for times, within the last seconds.
  bool repeats(int rank, std::string_view line, TimePoint time);

 private:
  struct Written {
    int rank = 0;
    TimePoint time{};
  };
  std::map<std::string, Written> written_;
};

/// Follows the standard error of all ranks. Holds back what follows the beginning of a traceback,
/// and a post-mortem that may come just before one, which then is a part of it. Drops lines of
/// Ronde's log that all ranks write alike. Threads: one.
class HeldErrors {
 public:
  /// A rank that goes on with its work gets its traceback printed after this time.
  static constexpr std::chrono::seconds kLongest{3};

  /// From now on prints everything at once, and still follows it.
  void hold_nothing() noexcept { holds_ = false; }

  /// Takes in bytes of a rank; returns those that are to be printed now.
  std::string feed(int rank, std::string_view bytes, TimePoint time);
  /// The unfinished lines that feed() has not returned, by rank; they are printed from now on.
  std::vector<std::pair<int, std::string>> partials();
  [[nodiscard]] bool has_partial() const noexcept;

  /// Output from the beginning of a traceback on, or a post-mortem, if that is the last the rank
  /// has written.
  struct Ending {
    std::string text;
    TimePoint since{};
    bool printed = false;   ///< It is not held back any more.
    std::string last_line;  ///< Without a traceback: the last line; not of Ronde's log.
  };
  /// How the rank's output ends; forgets it.
  Ending take(int rank);

  /// Returns text that was held for long enough, by rank.
  std::vector<std::pair<int, std::string>> due(TimePoint time);
  [[nodiscard]] TimePoint deadline() const noexcept;
  /// When the earliest traceback began that is held; ranks but `rank`.
  [[nodiscard]] TimePoint earliest_but(int rank) const noexcept;
  /// The ranks of which something is held, or a traceback was printed last.
  [[nodiscard]] std::vector<int> ranks() const;

 private:
  enum class Mode { kPlain, kTraceback, kLetPass };
  struct Stream {
    Mode mode = Mode::kPlain;
    std::string line;         ///< As far as it has come.
    std::size_t passed = 0;   ///< Bytes of it that are printed.
    std::string before;       ///< The line before.
    std::string telling;      ///< The last line that says something.
    std::string post_mortem;  ///< Held back; no traceback has begun after it.
    std::string traceback;
    TimePoint since{};     ///< When what is held came.
    bool printed = false;  ///< The traceback is not held back any more.
  };
  static std::string take_partial(Stream& stream);
  void end_line(int rank, Stream& stream, std::string& out, TimePoint time);
  [[nodiscard]] static bool holding(const Stream& stream) noexcept;
  static void forget_traceback(Stream& stream);

  std::map<int, Stream> streams_;
  RepeatedLogs logs_;
  bool holds_ = true;
};

}  // namespace ronde
