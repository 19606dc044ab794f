#include "bindings/cli/bench/contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "bindings/runtime/operations.h"
#include "bindings/runtime/timeline.h"
#include "core/base/clock.h"

namespace ronde::bench {

Submission submission_of(const Trial& trial, std::size_t index) {
  const Bundle bundle = trial.bundle();
  Submission submission;
  submission.request.name = fmt::format("bench.{}.{}", trial.bytes(), index);
  submission.request.kind = bundle.kind;
  submission.request.op = bundle.op;
  submission.request.root = traits_of(bundle.kind).rooted() ? 0 : -1;
  for (const BundleTensor& tensor : bundle.tensors) {
    submission.request.tensors.push_back({bundle.dtype, tensor.shape});
    submission.inputs.push_back(tensor.in);
    submission.outputs.push_back(tensor.out);
  }
  return submission;
}

namespace {

Status run_each(RawGroup& group, const Trials& trials) {
  for (const auto& trial : trials) RONDE_RETURN_IF_ERROR(group.run(trial->bundle()));
  return {};
}

Status run_named(Runtime& runtime, const Trials& trials) {
  for (std::size_t i = 0; i < trials.size(); ++i) {
    RONDE_RETURN_IF_ERROR(
        runtime.operations().run(kGlobalSet, submission_of(*trials[i], i)).status());
  }
  return {};
}

Status run_async(Runtime& runtime, const Trials& trials) {
  std::vector<OperationPtr> operations;
  operations.reserve(trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    RONDE_ASSIGN_OR_RETURN(auto operation,
                           runtime.operations().submit(kGlobalSet, submission_of(*trials[i], i)));
    operations.push_back(std::move(operation));
  }
  for (const OperationPtr& operation : operations)
    RONDE_RETURN_IF_ERROR(runtime.operations().wait(operation));
  return {};
}

double microseconds(TimePoint time) {
  return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count();
}

/// Samples of one contender on this rank, in microseconds of the host's clock.
struct Samples {
  std::vector<double> starts;
  std::vector<double> ends;
};

Status sample(Team& team, const Contender& contender, int burst, Samples& samples) {
  RONDE_RETURN_IF_ERROR(team.barrier());
  samples.starts.push_back(microseconds(now()));
  for (int i = 0; i < burst; ++i) RONDE_RETURN_IF_ERROR(contender.run());
  samples.ends.push_back(microseconds(now()));
  return {};
}

/// Microseconds of each sample on the slowest rank. A contender that is not collective counts from
/// the first rank's start to the last one's end: if ranks outnumber cores, one may start when
/// another has ended.
Result<std::vector<double>> durations(Team& team, const Contender& contender, Samples& samples) {
  std::vector<double>& taken = samples.ends;
  if (!contender.collective) {
    for (double& start : samples.starts) start = -start;
    RONDE_RETURN_IF_ERROR(team.slowest(samples.starts));
    for (double& start : samples.starts) start = -start;
  }
  for (std::size_t i = 0; i < taken.size(); ++i) taken[i] -= samples.starts[i];
  RONDE_RETURN_IF_ERROR(team.slowest(taken));
  return std::move(taken);
}

std::string complaint(const Contender& contender, const Trials& trials) {
  std::string what = contender.system + " gave a wrong result";
  if (trials.empty()) return what;  // on another rank
  const Trial& first = *trials.front();
  return fmt::format("{}: {} of {} bytes of {}", what, to_string(first.spec().kind), first.bytes(),
                     to_string(first.spec().dtype));
}

}  // namespace

Contender raw_contender(Team& team, Trials& trials) {
  return {"ronde", [&team, &trials] { return run_each(team.group(), trials); },
          [&team] { return team.group().last_path(); }};
}

Contender bundle_contender(Team& team, Trials& trials) {
  auto bundle = std::make_shared<Bundle>(trials.front()->bundle());
  bundle->tensors.clear();
  for (const auto& trial : trials) bundle->tensors.push_back(trial->bundle().tensors.front());
  return {"ronde", [&team, bundle] { return team.group().run(*bundle); },
          [&team, count = trials.size()] {
            return fmt::format("{}, {} fused", team.group().last_path(), count);
          }};
}

Contender named_contender(Team& team, Trials& trials) {
  return {"ronde-named", [&team, &trials] { return run_named(team.runtime(), trials); },
          [] { return std::string("engine"); }};
}

Contender async_contender(Team& team, Trials& trials, std::string label) {
  return {"ronde-async", [&team, &trials] { return run_async(team.runtime(), trials); },
          [label = std::move(label)] { return label; }};
}

Contender recorded_contender(Team& team, const Contender& plain) {
  return {"ronde-timeline",
          [&team, run = plain.run] {
            team.runtime().timeline().pause(false);
            Status status = run();
            team.runtime().timeline().pause(true);
            return status;
          },
          [algorithm = plain.algorithm] { return algorithm() + ", recorded"; }};
}

Contender memcpy_contender(Trials& trials) {
  std::size_t largest = 0;
  for (const auto& trial : trials) largest = std::max(largest, trial->out().size());
  auto source = std::make_shared<std::vector<std::byte>>(largest, std::byte{0x33});
  return {"memcpy",
          [source, &trials] {
            for (const auto& trial : trials) {
              const std::span<std::byte> out = trial->out();
              if (!out.empty()) std::memcpy(out.data(), source->data(), out.size());
            }
            return Status();
          },
          [] { return std::string("memcpy"); }, false};
}

Effort effort_for(std::size_t bytes, int repetitions) {
  if (bytes <= 4096) return {std::max(repetitions, 200), 16};
  if (bytes <= std::size_t{64} << 10) return {std::max(repetitions, 100), 4};
  return {repetitions, 1};
}

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto last = static_cast<double>(samples.size() - 1);
  const auto at = [&](double share) {
    return samples[static_cast<std::size_t>(std::ceil(share * last))];
  };
  return {at(0.5), at(0.99)};
}

Status check(Team& team, std::span<Contender> contenders, Trials& trials) {
  for (Contender& contender : contenders) {
    if (!contender.collective) {
      contender.ran = contender.algorithm();
      continue;
    }
    for (const auto& trial : trials) trial->spoil();
    const Status status = contender.run();
    RONDE_RETURN_IF_ERROR(status.with_context(contender.system));
    contender.ran = contender.algorithm();
    bool correct = true;
    for (const auto& trial : trials) correct = correct && trial->correct();
    RONDE_RETURN_IF_ERROR(team.all(correct, complaint(contender, trials)));
  }
  return {};
}

Result<std::vector<Timing>> measure(Team& team, std::span<const Contender> contenders,
                                    const Effort& effort) {
  const auto repetitions = static_cast<std::size_t>(effort.repetitions);
  std::vector<Samples> samples(contenders.size());
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::minstd_rand random(1);  // the same on all ranks
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    // The order varies. A contender that always came after the same one would always find that
    // one's data in the caches.
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t c : order) {
      RONDE_RETURN_IF_ERROR(sample(team, contenders[c], effort.burst, samples[c]));
    }
  }
  std::vector<Timing> timings;
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    RONDE_ASSIGN_OR_RETURN(std::vector<double> taken, durations(team, contenders[c], samples[c]));
    for (double& each : taken) each /= effort.burst;
    timings.push_back(summarize(std::move(taken)));
  }
  return timings;
}

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
