// Traces of jobs that never ran, with causes planted in them.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/timeline/scratch.h"
#include "timeline/recording/trace_format.h"
#include "timeline/report/verdict.h"

namespace ronde::report {

/// A training job: each step computes, submits its bundles on the way, waits for them.
struct Plan {
  int ranks = 4;
  int steps = 40;
  double compute_us = 10'000;
  double jitter = 0.02;  ///< Standard deviation of each rank's compute, as a share.
  int cores = 0;         ///< Of the ranks' host; 0: not told.
  int bundles = 2;
  int tensors = 3;  ///< In each bundle.
  std::uint64_t bundle_bytes = 1 << 20;
  double agree_us = 20;
  double wire_us = 200;
  double pack_us = 0;
  bool one_by_one = false;  ///< Each bundle is waited for before the next is submitted.
  bool step_marks = true;
  /// Of each rank's compute, that it stands ready without a core; negative: not told.
  std::function<double(int rank, int step)> no_core_us = [](int, int) { return -1.0; };
  double load_us = 0;     ///< The user's span "load", at the beginning of each step; 0: none.
  double cpu_cores = -1;  ///< That each rank's process uses; negative: not told.
  std::string job = "job";
  unsigned seed = 1;
  /// Extra time that `rank` computes in `step`, before and after its first submission.
  std::function<double(int rank, int step)> early_us = [](int, int) { return 0.0; };
  std::function<double(int rank, int step)> late_us = [](int, int) { return 0.0; };
};

/// One rank's trace as it grows. Times are microseconds.
class RankWriter {
 public:
  static RecordingInfo info_of(int rank, int size);
  explicit RankWriter(const RecordingInfo& info)
      : formatter_(info), text_("[\n" + format_header(info)) {}

  void add(EventKind kind, double at_us, std::string_view track, std::string_view name = {},
           const Event& facts = {});
  void span(double from_us, double to_us, std::string_view track, std::string_view name);
  void count(double at_us, std::string_view name, double value);
  [[nodiscard]] std::string finish() const { return text_ + "\n]\n"; }

 private:
  TraceFormatter formatter_;
  std::string text_;
};

/// The trace of each rank, as its recorder would have written it.
std::vector<std::string> traces_of(const Plan& plan);

/// Writes the traces into `scratch` and gives their paths.
std::vector<std::string> write_traces(const ScratchFolder& scratch, const Plan& plan);
std::vector<std::string> write_texts(const ScratchFolder& scratch,
                                     const std::vector<std::string>& texts);

/// Loads and analyzes them.
struct Read {
  JobTrace job;
  Analysis analysis;
  std::vector<Finding> findings;
};
Read read_plan(const Plan& plan);
Read read_traces(const std::vector<std::string>& paths);

/// The finding of that cause, or null.
const Finding* finding_of(const Read& read, Cause cause);

}  // namespace ronde::report
