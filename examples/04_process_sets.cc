// Some ranks work together while others do something else: a process set has its own order of
// operations, and nothing in one set waits for another.
//   ronde run -np 4 build/release/examples/04_process_sets
#include <ronde/ronde.h>

#include <cstdio>
#include <vector>

int main() {
  auto job = ronde::init();
  std::vector<int> even;
  std::vector<int> odd;
  for (int rank = 0; rank < job.size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  if (odd.empty()) {
    std::printf("this example needs at least 2 ranks\n");
    return 0;
  }

  // Every rank of the job makes both sets, whether it is in them or not.
  const bool is_even = job.rank() % 2 == 0;
  const ronde::ProcessSet sets[] = {job.add_process_set(even), job.add_process_set(odd)};

  std::vector<float> value(1, static_cast<float>(job.rank()));
  job.allreduce("sum of my kind", ronde::tensor(value),
                {.op = ronde::ReduceOp::kSum, .set = sets[is_even ? 0 : 1]});
  std::printf("rank %d: the %s ranks sum to %.0f\n", job.rank(), is_even ? "even" : "odd",
              static_cast<double>(value[0]));
}
