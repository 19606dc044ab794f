// The systems that do the same operation in one measurement: Ronde by raw groups and by name, other
// libraries, and memcpy as the limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "bindings/cli/bench/team.h"
#include "bindings/cli/bench/trial.h"
#include "core/engine/queues/operation.h"

namespace ronde::bench {

/// The operations that are measured as one: each once, in order.
using Trials = std::vector<std::unique_ptr<Trial>>;

/// Does the trials' operations.
struct Contender {
  std::string system;
  std::function<Status()> run;             ///< All trials, to their ends. Blocks.
  std::function<std::string()> algorithm;  ///< The algorithm that ran last.
  bool collective = true;                  ///< False for memcpy: has no result to check.
  std::string ran = {};                    ///< The algorithm of the last check.
};

/// Another library on the team's ranks. Threads: one at a time.
class Peer {
 public:
  /// Loads the library "mpi" or "gloo" and connects. Collective over the team.
  /// Errors: kUnavailable with the reason.
  static Result<std::unique_ptr<Peer>> open(const std::string& name, Team& team,
                                            const Config& config);
  ~Peer();

  [[nodiscard]] bool supports(const TrialSpec& spec) const noexcept;
  Contender contender(Trials& trials);

 private:
  explicit Peer(std::string name);

  const std::string name_;
  const std::shared_ptr<AbortToken> abort_ = std::make_shared<AbortToken>();
  Registry registry_;
  std::unique_ptr<Communicator> group_;
};

/// A named submission of one trial, the `index`-th of its measurement.
Submission submission_of(const Trial& trial, std::size_t index);

/// Each trial by the team's raw group.
Contender raw_contender(Team& team, Trials& trials);

/// All trials as one bundle of the raw group: one buffer's worth of work.
Contender bundle_contender(Team& team, Trials& trials);

/// Each trial by a named, blocking call.
Contender named_contender(Team& team, Trials& trials);

/// All trials submitted by name, then waited for. `label` says in reports what was submitted.
Contender async_contender(Team& team, Trials& trials, std::string label);

/// Does the same as `plain` while the runtime's timeline records it.
Contender recorded_contender(Team& team, const Contender& plain);

/// Copies as many bytes as the trials move, into their outputs.
Contender memcpy_contender(Trials& trials);

/// One step on this rank. Backward: for each gradient (the trials, last layer first) some
/// computing, then it is submitted. Then the next forward, first layer first: each layer waits for
/// its own gradient and computes. Computing is slept through, as on an accelerator; each layer's
/// part is that of its bytes, backward has two thirds. `compute` is for all of it. `priorities`:
/// what forward needs first is the most urgent, else all are alike.
Contender step_contender(Team& team, Trials& trials, std::chrono::nanoseconds compute,
                         bool priorities);

/// One contender's times, in microseconds per operation.
struct Timing {
  double p50_us = 0;
  double p99_us = 0;
};

/// The length of a measurement.
struct Effort {
  int repetitions = 30;  ///< Samples of each contender.
  int burst = 1;         ///< Operations in one sample, so that the clock's cost does not show.
};

/// More repetitions and longer bursts for small operations, never fewer than asked for.
Effort effort_for(std::size_t bytes, int repetitions);

/// The middle and the 99th percentile (nearest rank). `samples` is not empty.
Timing summarize(std::vector<double> samples);

/// Runs each contender once on spoiled outputs and checks the results, on all ranks; those without
/// trials only take part. Notes the algorithms: measurements end with an operation of the team.
/// Errors: the contender's; kInternal naming the contender whose result is wrong.
Status check(Team& team, std::span<Contender> contenders, Trials& trials);

/// Times all contenders, interleaved, each after a barrier. Collective over the team.
Result<std::vector<Timing>> measure(Team& team, std::span<const Contender> contenders,
                                    const Effort& effort);

}  // namespace ronde::bench
