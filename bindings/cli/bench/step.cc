#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/cli/bench/contender.h"
#include "bindings/runtime/operations.h"
#include "core/base/clock.h"

namespace ronde::bench {
namespace {

using Nanoseconds = std::chrono::nanoseconds;
constexpr Nanoseconds kWorthSleeping{50'000};  // shorter ones are made up for by the next

/// The accelerator's clock: computing ends there, whatever the processor does meanwhile.
class Computing {
 public:
  void compute(Nanoseconds time) {
    until_ = std::max(until_, now()) + time;
    if (until_ - now() > kWorthSleeping) std::this_thread::sleep_until(until_);
  }
  /// The next part begins where the last one ended, though this thread has seen it later.
  void compute_back_to_back(Nanoseconds time) {
    until_ += time;
    if (until_ - now() > kWorthSleeping) std::this_thread::sleep_until(until_);
  }
  void finish() const { std::this_thread::sleep_until(until_); }

 private:
  TimePoint until_ = now();
};

Status run_step(Runtime& runtime, const Trials& trials, Nanoseconds compute, bool priorities) {
  const auto total = static_cast<double>(
      std::accumulate(trials.begin(), trials.end(), std::size_t{0},
                      [](std::size_t sum, const auto& trial) { return sum + trial->bytes(); }));
  const auto part = [&](std::size_t layer, double share) {
    const double time = static_cast<double>(compute.count()) * share;
    return Nanoseconds(
        static_cast<std::int64_t>(time * static_cast<double>(trials[layer]->bytes()) / total));
  };
  Computing accelerator;
  std::vector<OperationPtr> operations;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    accelerator.compute_back_to_back(part(i, 2.0 / 3));
    Submission submission = submission_of(*trials[i], i);
    submission.request.priority = priorities ? static_cast<std::int32_t>(i) : 0;
    RONDE_ASSIGN_OR_RETURN(auto operation,
                           runtime.operations().submit(kGlobalSet, std::move(submission)));
    operations.push_back(std::move(operation));
  }
  for (std::size_t i = trials.size(); i-- > 0;) {
    RONDE_RETURN_IF_ERROR(runtime.operations().wait(operations[i]));
    accelerator.compute(part(i, 1.0 / 3));
  }
  accelerator.finish();
  return {};
}

}  // namespace

Contender step_contender(Team& team, Trials& trials, std::chrono::nanoseconds compute,
                         bool priorities) {
  return {"ronde-step",
          [&team, &trials, compute, priorities] {
            return run_step(team.runtime(), trials, compute, priorities);
          },
          [priorities] { return std::string(priorities ? "by priority" : "as submitted"); }};
}

}  // namespace ronde::bench
