// The ranks of `ronde bench`: their start, and the measurements that each of them makes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/bench/options.h"
#include "bindings/cli/bench/report.h"
#include "bindings/cli/bench/team.h"
#include "core/base/settings/config.h"
#include "ops/selection/selector.h"

namespace ronde::bench {

/// Runs `command` as `np` ranks of one job and returns the exit status of the first that failed,
/// or 0. With `by_mpirun` the ranks are mpirun's, not bound to cores. Standard output and error
/// are shared. Blocks; leaves no process behind, killed or not. Threads: call from the only one.
/// Errors: those of installed_mpirun().
Result<int> spawn_ranks(const std::vector<std::string>& command, int np, bool by_mpirun);

/// Joins the job that `config` describes and measures; rank 0 prints. Collective over the job.
/// Errors: what kept it from measuring; kInternal for a wrong result.
Status run_worker(const Config& config, const Options& options);

/// A compressed allreduce to measure.
struct CompressionBench {
  std::string compression;  ///< In CompressionSpec's form, or "auto".
  std::size_t bytes = 0;    ///< Size of the tensor of fp32.
  int repetitions = 30;
};

/// Lets the dense allreduce and the compressed one of a matrix of random numbers take turns, each
/// with error feedback as in training. Hands over two rows at rank 0; the second says what
/// travelled, what took how long, and the norm of the mean's error by the mean's own, of a first
/// step. Collective over the team.
/// Errors: kInternal where ranks do not end with the same bits, or the result is not finite.
Status compete_compressed(Team& team, const CompressionBench& what,
                          const std::function<void(const Row&)>& add);

/// The fastest algorithm at one size.
struct Winner {
  std::size_t bytes = 0;
  std::string_view algorithm;
};

/// Rows for one collective and up to `ranks` ranks, from winners by ascending size: an algorithm
/// reaches half way (by ratio) to the first size that another won; the last has no limit.
std::vector<SelectionRow> rows_of(Collective kind, int ranks, std::span<const Winner> winners);

/// 2, 4, 8, ... and `np` itself.
std::vector<int> group_sizes(int np);

/// Measures all algorithms of all collectives that have several, and writes the file at rank 0.
/// Collective over the team. `note` is told what comes out. Errors: kInternal naming an algorithm
/// whose result is wrong, or saying that the file cannot be written.
Status tune(Team& team, const Options& options,
            const std::function<void(const std::string&)>& note);

}  // namespace ronde::bench
