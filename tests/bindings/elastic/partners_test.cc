// With real ranks in one job. Those that die are in tests/chaos.
#include "bindings/elastic/partners.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bindings/elastic/ranks.h"
#include "bindings/elastic/remade_sets.h"
#include "tests/backends/net/processes.h"

/// In a child process: ends it with a text that says what went wrong.
#define EXPECT(condition)                                                                 \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      return 1;                                                                           \
    }                                                                                     \
  } while (false)

namespace ronde::elastic {
namespace {

/// Runs `body` as every rank of a job of three.
void run_job(const std::function<int(Runtime&, int)>& body) {
  const std::string job = net::unique_job_id();
  const auto codes = net::run_ranks(3, [&](int rank) {
    auto runtime = Runtime::create(net::rank_config(job, rank, 3));
    EXPECT(runtime.ok());
    return body(**runtime, rank);
  });
  CHECK(codes == std::vector<int>{0, 0, 0});
}

/// An epoch of three workers on three hosts.
EpochNote place(EpochId epoch, int rank, const std::vector<WorkerId>& workers) {
  EpochNote note;
  note.epoch = epoch;
  note.rank = rank;
  for (const WorkerId worker : workers) {
    note.workers.push_back({worker, "host" + std::to_string(note.workers.size()), true});
  }
  return note;
}

}  // namespace

TEST_CASE("ranks: facts are joined, messages are gathered, and bytes exchanged") {
  run_job([](Runtime& runtime, int rank) {
    Ranks ranks(runtime);
    const auto facts = ranks.agree({rank == 1, false, rank == 1, rank == 2});
    EXPECT(facts.ok() && facts->changed && facts->only_removed() && facts->running);
    EXPECT(ranks.newest_step(std::int64_t{10} * rank).value() == 20);
    const auto all = ranks.gather("facts", OwnFacts{rank == 0, 5, rank});
    EXPECT(all.ok() && all->size() == 3 && (*all)[2].residual_steps == 2);
    const std::string mine(static_cast<std::size_t>(rank), 'b');
    const auto got = ranks.exchange("bytes", mine, {rank, 0, 0});
    EXPECT(got.ok() && got->bytes == (rank == 0 ? "bbb" : ""));
    EXPECT(rank != 0 || got->sizes == (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT(ranks.meet().ok());
    return 0;
  });
}

TEST_CASE("partners: a worker that replaces one that is gone gets its state from the partner") {
  run_job([](Runtime& runtime, int rank) {
    Ranks ranks(runtime);
    Partners partners(1);
    EXPECT(partners.due());
    const EpochNote first = place(1, rank, {1, 2, 3});
    EXPECT(partners.send(ranks, first, 5, "own of rank " + std::to_string(rank)).ok());
    partners.begun(first);
    if (rank == 2) partners = Partners(1);  // worker 3 is gone, and 4 has joined
    const EpochNote second = place(2, rank, {1, 2, 4});
    const auto settled = partners.settle(ranks, second, 5, {rank != 2, 0, rank});
    EXPECT(settled.ok() && settled->lost.empty() && settled->orphans.empty());
    EXPECT(settled->residual_steps == 2);
    EXPECT(settled->mine.value_or("") == (rank == 2 ? "own of rank 2" : ""));
    return 0;
  });
}

TEST_CASE("process sets: those whose workers are left are made again, as rank 0 knows them") {
  run_job([](Runtime& runtime, int rank) {
    const EpochNote now = place(2, rank, {1, 2, 4});
    std::vector<KeptSet> kept;
    if (rank != 2) kept = {{{1, 2}, 7}, {{2, 3}, 8}, {{1, 2, 4}, 9}};
    Ranks ranks(runtime);
    const auto made = remake_sets(ranks, now, kept);
    EXPECT(made.ok() && made->size() == 2);
    EXPECT((*made)[0].ranks == (std::vector{0, 1}) && !(*made)[0].is_private);
    EXPECT((*made)[1].ranks == (std::vector{0, 1, 2}) && (*made)[1].is_private);
    EXPECT(remake_sets(ranks, place(1, rank, {1, 2, 4}), kept)->empty());
    return 0;
  });
}

}  // namespace ronde::elastic
