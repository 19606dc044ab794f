// Trains without end and prints when the first operation of each epoch has ended, by the clock that
// all processes of a host share. As recovery_worker.py, with its variable: STATE_BYTES.
#include <ronde/elastic.h>
#include <ronde/ronde.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

double seconds() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

/// Never returns, but throws.
void train(ronde::Job& job, ronde::elastic::State& state, double start, std::int64_t& steps) {
  static std::vector<float> one(16, 1);
  for (bool first = true;; first = false) {
    job.allreduce("one", ronde::tensor(one));
    if (first) {
      std::printf("FIRST %.6f size %d pid %d since %.6f\n", seconds(), job.size(), ::getpid(),
                  start);
      std::fflush(stdout);
    }
    ++steps;
    state.commit();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

int main() {
  const double start = seconds();
  const char* const bytes = std::getenv("STATE_BYTES");  // NOLINT(concurrency-mt-unsafe)
  std::vector<float> weights(bytes == nullptr ? 0 : std::strtoull(bytes, nullptr, 10) / 4);
  std::int64_t steps = 0;
  try {
    auto job = ronde::init();
    ronde::elastic::State state(job);
    state.add("weights", ronde::tensor(weights));
    state.add("steps", steps);
    (void)ronde::elastic::run(state, [&] { train(job, state, start, steps); });
    return 0;
  } catch (const ronde::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
