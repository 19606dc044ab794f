#include "bindings/cli/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

namespace ronde::bench {
namespace {

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

/// Microseconds of each sample on the slowest rank. What is not collective counts from the first
/// rank's start to the last one's end: where ranks outnumber cores, one may start when another is
/// done.
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
    // By turns that vary: always after the same one, a contender would find in the caches what that
    // one has left there.
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

}  // namespace ronde::bench
