// Uses the installed headers and library alone.
#include <ronde/ronde.h>

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
}
