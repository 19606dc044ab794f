// Uses the installed headers and library alone.
#include <ronde/elastic.h>
#include <ronde/ronde.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  auto job = ronde::init();
  std::vector<float> values(3, static_cast<float>(job.rank() + 1));
  auto done = job.allreduce_async("outside", ronde::tensor(values), {.op = ronde::ReduceOp::kSum});
  done.wait();
  std::printf("sum %.0f\n", static_cast<double>(values[2]));
  try {
    job.broadcast("wrong root", ronde::tensor(values), job.size());
  } catch (const ronde::Error& error) {
    std::printf("typed error: %s\n", error.what());
  }
  std::int64_t steps = 0;
  ronde::elastic::State state(job);
  state.add("values", ronde::tensor(values));
  state.add("steps", steps);
  const bool finished = ronde::elastic::run(state, [&] {
    for (; steps < 3; ++steps) state.commit();
  });
  std::printf("elastic %d after %lld steps\n", finished, static_cast<long long>(steps));
}
