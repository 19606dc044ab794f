// Raw collectives: no names and no negotiation, for programs whose ranks make the same calls in the
// same order by construction.
//   ronde run -np 2 build/release/examples/06_raw_group
#include <ronde/ronde.h>

#include <chrono>
#include <cstdio>
#include <vector>

int main() {
  auto job = ronde::init();
  auto group = job.group();
  std::vector<float> values(1 << 20, 1.0F);
  group.allreduce(ronde::tensor(values), {.op = ronde::ReduceOp::kSum});  // warms up

  values.assign(values.size(), 1.0F);
  const auto begin = std::chrono::steady_clock::now();
  group.allreduce(ronde::tensor(values), {.op = ronde::ReduceOp::kSum});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (group.rank() == 0) {
    std::printf("%d ranks summed 4 MiB in %.2f ms; each element is %.0f\n", group.size(),
                took.count(), static_cast<double>(values[0]));
  }
}
