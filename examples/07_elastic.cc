// Training that goes on when ranks die, leave and join: a state is committed after each step, and
// run() calls the loop again with the ranks that there are then. Kill one of its processes.
//   ronde run -np 3 --min-np 1 build/release/examples/07_elastic
#include <ronde/elastic.h>
#include <ronde/ronde.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  auto job = ronde::init();
  std::vector<float> weights(4);
  std::vector<float> gradient(4);
  std::int64_t step = 0;

  ronde::elastic::State state(job);
  state.add("weights", ronde::tensor(weights));
  state.add("step", step);
  const bool finished = ronde::elastic::run(state, [&] {
    while (step < 300) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // computes
      gradient.assign(4, 1.0F);
      job.allreduce("gradient", ronde::tensor(gradient));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += gradient[i];
      ++step;
      state.commit();
    }
  });
  if (!finished) return 0;  // this worker was asked to leave; the others go on

  std::printf("rank %d of %d: %.0f steps\n", job.rank(), job.size(),
              static_cast<double>(weights[0]));
}
