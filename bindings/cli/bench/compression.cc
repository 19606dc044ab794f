#include <fmt/format.h>

#include <cmath>
#include <random>
#include <vector>

#include "bindings/cli/bench/contender.h"
#include "bindings/cli/bench/worker.h"

namespace ronde::bench {
namespace {

using Floats = std::vector<float>;

/// About as many rows as columns.
Shape matrix_of(std::size_t elements) {
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(elements)));
  while (rows > 1 && elements % rows != 0) --rows;
  return {static_cast<std::int64_t>(rows),
          static_cast<std::int64_t>(elements / std::max<std::size_t>(1, rows))};
}

Floats normals(std::size_t count, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Bundle mean_of(const Floats& in, Floats& out, const std::string& compression) {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  bundle.op = ReduceOp::kAverage;
  bundle.compression = compression;
  if (!compression.empty()) bundle.keys = {fmt::format("bench.{}", in.size())};
  bundle.tensors.resize(1);
  bundle.tensors[0].name = "bench";
  bundle.tensors[0].in = in.data();
  bundle.tensors[0].out = out.data();
  bundle.tensors[0].shape = matrix_of(in.size());
  return bundle;
}

double norm_of(const Floats& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

/// Norm of the difference by the norm of what is exact.
double error_of(const Floats& values, const Floats& exact) {
  Floats difference(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) difference[i] = values[i] - exact[i];
  const double norm = norm_of(exact);
  return norm > 0 ? norm_of(difference) / norm : 0;
}

/// A number that ranks share where they have the same bits: equal sums, and of squares.
Status check_alike(Team& team, const Floats& values, const std::string& compression) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    sum += values[i] * static_cast<double>(i % 1021 + 1);
  std::vector<double> most{sum, -sum};
  RONDE_RETURN_IF_ERROR(team.slowest(most));
  const bool alike = std::isfinite(sum) && most[0] == sum && most[1] == -sum;
  return team.all(alike, fmt::format("the result of {} is not the same on all ranks", compression));
}

}  // namespace

Status compete_compressed(Team& team, const CompressionBench& what,
                          const std::function<void(const Row&)>& add) {
  const std::size_t count = std::max<std::size_t>(1, what.bytes / sizeof(float));
  const Floats in = normals(count, team.rank());
  Floats exact(count), out(count);
  const Bundle dense = mean_of(in, exact, ""), compressed = mean_of(in, out, what.compression);
  RONDE_RETURN_IF_ERROR(team.group().run(dense));
  RONDE_RETURN_IF_ERROR(team.group().run(compressed));
  RONDE_RETURN_IF_ERROR(check_alike(team, out, what.compression));
  const double error = error_of(out, exact);
  const auto contender = [&](const char* system, const Bundle& bundle) {
    return Contender{system, [&team, &bundle] { return team.group().run(bundle); },
                     [&team] { return team.group().last_path(); }};
  };
  const std::vector<Contender> contenders{contender("ronde", dense),
                                          contender("ronde-compressed", compressed)};
  Effort effort = effort_for(what.bytes, what.repetitions);
  effort.burst = 1;
  RONDE_ASSIGN_OR_RETURN(const auto timings, measure(team, contenders, effort));
  RONDE_RETURN_IF_ERROR(team.group().run(compressed));
  const CompressionFacts facts = team.group().last_compression();
  for (std::size_t i = 0; i < contenders.size() && team.rank() == 0; ++i) {
    Row row;
    row.system = contenders[i].system;
    row.collective = "allreduce";
    row.algorithm = i == 0 ? "dense" : what.compression;
    row.np = team.size();
    row.bytes = count * sizeof(float);
    row.dtype = "float32";
    row.p50_us = timings[i].p50_us;
    row.p99_us = timings[i].p99_us;
    row.algbw_gbps = static_cast<double>(row.bytes) / (1000 * row.p50_us);
    row.busbw_gbps = row.algbw_gbps * 2 * (team.size() - 1) / team.size();
    if (i == 1) row.compression = {{facts, error, timings[0].p50_us / timings[1].p50_us}};
    add(row);
  }
  return {};
}

}  // namespace ronde::bench
