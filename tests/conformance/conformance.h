// The suite that every data plane passes. A backend's test joins it with a fixture that opens the
// backend on a number of ranks, and one line:
//   RONDE_CONFORMANCE("shm", ShmFixture);
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ports/backend.h"
#include "core/ports/reduce_kernels.h"
#include "ops/execution/executor.h"

namespace ronde::test {

/// The work of one rank with its backend; `rank` is the group's.
using RankBody = std::function<void(int rank, Backend&, const GroupSpec&, Exchange&)>;

/// How the suite reaches a backend. Ranks may be threads (tests/support/run_ranks.h) or processes.
class ConformanceFixture {
 public:
  virtual ~ConformanceFixture() = default;

  /// Calls `body` once for each rank of a fresh group of `ranks` ranks, at the same time, and
  /// returns when all have returned. GroupSpec::abort is set and of this rank or group alone.
  virtual void run(int ranks, const RankBody& body) = 0;

  /// Sizes to test; a fixture that cannot start any number (MPI) says which it can.
  [[nodiscard]] virtual std::vector<int> rank_counts() const { return {1, 2, 3, 4, 5, 8}; }

  /// Sizes to test averages with.
  [[nodiscard]] virtual std::vector<int> mean_rank_counts() const {
    return rank_counts().size() > 1 ? std::vector<int>{2, 3, 4, 5, 6, 7, 8} : rank_counts();
  }

  /// How far the mean of equal float32 or float64 values may be from them.
  [[nodiscard]] virtual double mean_ulps() const { return 0; }

  /// ExecutorOptions::algorithm: tests an algorithm other than the default one.
  [[nodiscard]] virtual std::string algorithm() const { return {}; }

  /// True if every rank must have the same bits (not for a library's own collectives).
  [[nodiscard]] virtual bool same_bits() const { return true; }

  /// Makes a rank's executor; a fixture may put tensors elsewhere, or open a device.
  [[nodiscard]] virtual std::unique_ptr<Executor> make_executor(ExecutorOptions options,
                                                                const GroupSpec& group,
                                                                Exchange& exchange) const;

  /// The arithmetic that the executor is given.
  [[nodiscard]] virtual std::shared_ptr<const ReduceKernels> kernels() const;
};

/// The suite: each function is the body of one test case.
void conformance_allreduce(ConformanceFixture& fixture);
void conformance_large_allreduce(ConformanceFixture& fixture);
void conformance_scaling(ConformanceFixture& fixture);
void conformance_averages(ConformanceFixture& fixture);
void conformance_means(ConformanceFixture& fixture);
void conformance_weights(ConformanceFixture& fixture);
void conformance_adasum(ConformanceFixture& fixture);
void conformance_not_a_number(ConformanceFixture& fixture);
void conformance_nonfinite(ConformanceFixture& fixture);
void conformance_fused(ConformanceFixture& fixture);
void conformance_joined(ConformanceFixture& fixture);
void conformance_sparse(ConformanceFixture& fixture);
void conformance_reduce(ConformanceFixture& fixture);
void conformance_broadcast(ConformanceFixture& fixture);
void conformance_allgather(ConformanceFixture& fixture);
void conformance_gather_scatter(ConformanceFixture& fixture);
void conformance_reduce_scatter(ConformanceFixture& fixture);
void conformance_alltoall(ConformanceFixture& fixture);
void conformance_wrong_splits(ConformanceFixture& fixture);
void conformance_barrier(ConformanceFixture& fixture);
void conformance_sequence(ConformanceFixture& fixture);
void conformance_abort(ConformanceFixture& fixture);

}  // namespace ronde::test

#define RONDE_CONFORMANCE_CASE_(text, Fixture, function) \
  TEST_CASE(text) {                                      \
    Fixture fixture;                                     \
    ::ronde::test::function(fixture);                    \
  }

/// The cases that hold over a device data plane: NCCL rounds 16-bit averages more than once, and
/// barriers and waits for a rank that never comes are the host's.
#define RONDE_DEVICE_CONFORMANCE(name, Fixture)                                                \
  RONDE_CONFORMANCE_CASE_(name ": allreduce of every type, op and count", Fixture,             \
                          conformance_allreduce)                                               \
  RONDE_CONFORMANCE_CASE_(name ": allreduce of large tensors", Fixture,                        \
                          conformance_large_allreduce)                                         \
  RONDE_CONFORMANCE_CASE_(name ": factors are applied before and after", Fixture,              \
                          conformance_scaling)                                                 \
  RONDE_CONFORMANCE_CASE_(name ": averages weighted by rank", Fixture, conformance_weights)    \
  RONDE_CONFORMANCE_CASE_(name ": a NaN of any rank reaches every rank", Fixture,              \
                          conformance_not_a_number)                                            \
  RONDE_CONFORMANCE_CASE_(name ": bundles of several tensors, some empty", Fixture,            \
                          conformance_fused)                                                   \
  RONDE_CONFORMANCE_CASE_(name ": a joined rank counts as zeros", Fixture, conformance_joined) \
  RONDE_CONFORMANCE_CASE_(name ": reduce to every root", Fixture, conformance_reduce)          \
  RONDE_CONFORMANCE_CASE_(name ": broadcast from every root", Fixture, conformance_broadcast)  \
  RONDE_CONFORMANCE_CASE_(name ": allgather of uneven parts", Fixture, conformance_allgather)  \
  RONDE_CONFORMANCE_CASE_(name ": gather to and scatter from every root", Fixture,             \
                          conformance_gather_scatter)                                          \
  RONDE_CONFORMANCE_CASE_(name ": reduce_scatter gives the first ranks one row more", Fixture, \
                          conformance_reduce_scatter)                                          \
  RONDE_CONFORMANCE_CASE_(name ": alltoall with even and uneven splits", Fixture,              \
                          conformance_alltoall)                                                \
  RONDE_CONFORMANCE_CASE_(name ": wrong splits are an error on all ranks, and work goes on",   \
                          Fixture, conformance_wrong_splits)                                   \
  RONDE_CONFORMANCE_CASE_(name ": a long mixed sequence without synchronisation", Fixture,     \
                          conformance_sequence)

/// Defines the whole suite for `Fixture`, a default-constructible ConformanceFixture. `name` is a
/// string literal, the first word of every test's name. At namespace scope, once per fixture.
#define RONDE_CONFORMANCE(name, Fixture)                                                          \
  RONDE_DEVICE_CONFORMANCE(name, Fixture)                                                         \
  RONDE_CONFORMANCE_CASE_(name ": 16-bit averages do not overflow and are rounded once", Fixture, \
                          conformance_averages)                                                   \
  RONDE_CONFORMANCE_CASE_(name ": the mean of equal values is that value", Fixture,               \
                          conformance_means)                                                      \
  RONDE_CONFORMANCE_CASE_(name ": Adasum is within 1 ulp of its formula", Fixture,                \
                          conformance_adasum)                                                     \
  RONDE_CONFORMANCE_CASE_(name ": nobody leaves a barrier before all have come", Fixture,         \
                          conformance_barrier)                                                    \
  RONDE_CONFORMANCE_CASE_(name ": abort ends every wait for a rank that never comes", Fixture,    \
                          conformance_abort)

/// The cases that hold over host memory alone.
#define RONDE_HOST_CONFORMANCE(name, Fixture)                                                  \
  RONDE_CONFORMANCE_CASE_(name ": who put in NaN or Inf first is known to all ranks", Fixture, \
                          conformance_nonfinite)                                               \
  RONDE_CONFORMANCE_CASE_(name ": sparse rows of equal index are added up", Fixture,           \
                          conformance_sparse)
