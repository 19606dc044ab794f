#include "bindings/cli/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ronde::bench {
namespace {

double microseconds_since(TimePoint start) {
  return std::chrono::duration<double, std::micro>(now() - start).count();
}

/// One sample: microseconds per operation on this rank.
Result<double> sample(Team& team, const Contender& contender, int burst) {
  RONDE_RETURN_IF_ERROR(team.barrier());
  const TimePoint start = now();
  for (int i = 0; i < burst; ++i) RONDE_RETURN_IF_ERROR(contender.run());
  return microseconds_since(start) / burst;
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

Status check(Team& team, std::span<const Contender> contenders, Trials& trials) {
  for (const Contender& contender : contenders) {
    if (!contender.collective) continue;
    for (const auto& trial : trials) trial->spoil();
    const Status status = contender.run();
    RONDE_RETURN_IF_ERROR(status.with_context(contender.system));
    bool correct = true;
    for (const auto& trial : trials) correct = correct && trial->correct();
    const std::string what =
        fmt::format("{} gave a wrong result: {} of {} bytes of {}", contender.system,
                    to_string(trials.front()->spec().kind), trials.front()->bytes(),
                    to_string(trials.front()->spec().dtype));
    RONDE_RETURN_IF_ERROR(team.all(correct, what));
  }
  return {};
}

Result<std::vector<Timing>> measure(Team& team, std::span<const Contender> contenders,
                                    const Effort& effort) {
  const auto repetitions = static_cast<std::size_t>(effort.repetitions);
  std::vector<std::vector<double>> samples(contenders.size());
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      RONDE_ASSIGN_OR_RETURN(const double taken, sample(team, contenders[c], effort.burst));
      samples[c].push_back(taken);
    }
  }
  std::vector<Timing> timings;
  for (std::vector<double>& of_contender : samples) {
    RONDE_RETURN_IF_ERROR(team.slowest(of_contender));
    timings.push_back(summarize(std::move(of_contender)));
  }
  return timings;
}

}  // namespace ronde::bench
