// The smallest job: every rank gives a tensor, every rank gets the average.
//   ronde run -np 2 build/release/examples/01_allreduce
#include <ronde/ronde.h>

#include <cstdio>
#include <vector>

int main() {
  auto job = ronde::init();  // the job that `ronde run` started, or a job of one rank

  std::vector<float> values(4, static_cast<float>(job.rank()));
  job.allreduce("values", ronde::tensor(values));  // in place; the default is the average

  std::printf("rank %d of %d: the average rank is %.1f\n", job.rank(), job.size(),
              static_cast<double>(values[0]));
}
