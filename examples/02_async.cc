// Submit first, wait later: small tensors that are ready together travel as one. Ranks may submit
// them in any order; the names say which belong together.
//   ronde run -np 2 build/release/examples/02_async
#include <ronde/ronde.h>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  auto job = ronde::init();
  constexpr int kLayers = 10;
  std::vector<std::vector<double>> gradients(kLayers, std::vector<double>(1000, 1.0));

  std::vector<ronde::Pending> pending;
  for (int i = 0; i < kLayers; ++i) {
    const int layer = job.rank() % 2 == 0 ? i : kLayers - 1 - i;  // odd ranks go backwards
    pending.push_back(job.allreduce_async("layer" + std::to_string(layer),
                                          ronde::tensor(gradients[static_cast<std::size_t>(layer)]),
                                          {.op = ronde::ReduceOp::kSum}));
  }
  for (const ronde::Pending& one : pending) one.wait();

  std::printf("rank %d: every element is %.0f\n", job.rank(), gradients[3][7]);
}
