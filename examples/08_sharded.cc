// Each rank keeps 1/N of AdamW's state and updates 1/N of the parameters. The loop is that of one
// rank but for the optimizer: it has the parameters and gradients, and is told of those complete.
//   ronde run -np 2 build/release/examples/08_sharded
#include <ronde/sharded.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

namespace {

constexpr std::size_t kInputs = 100;

/// Adds the gradient of the squared error of w * x + b; returns the error.
float backward(std::span<const float> weight, float bias, const std::vector<float>& x, float target,
               std::span<float> weight_gradient, float& bias_gradient) {
  float error = bias - target;
  for (std::size_t i = 0; i < kInputs; ++i) error += weight[i] * x[i];
  bias_gradient += 2 * error;
  for (std::size_t i = 0; i < kInputs; ++i) weight_gradient[i] += 2 * error * x[i];
  return error * error;
}

}  // namespace

int main() {
  auto job = ronde::init();
  const std::vector<float> weight(kInputs);
  const std::vector<float> bias(1);
  ronde::ShardedOptimizer optimizer(
      job, {{"weight", ronde::tensor(weight)}, {"bias", ronde::tensor(bias)}},
      ronde::AdamW{.learning_rate = 0.005, .weight_decay = 0.0});

  std::mt19937 random(static_cast<unsigned>(job.rank()));  // each rank has its own samples
  std::uniform_real_distribution<float> values(-1, 1);
  float loss = 0;
  for (int step = 0; step < 1000; ++step) {
    std::vector<float> x(kInputs);
    float target = 1;
    for (std::size_t i = 0; i < kInputs; ++i) target += 0.1F * (x[i] = values(random));
    loss = backward(optimizer.values("weight").as<float>(), optimizer.values("bias").as<float>()[0],
                    x, target, optimizer.gradient("weight").as<float>(),
                    optimizer.gradient("bias").as<float>()[0]);
    optimizer.ready("bias");
    optimizer.ready("weight");
    optimizer.clip_norm(10.0);
    optimizer.step();
  }
  const ronde::ShardedState whole = optimizer.save();  // on all ranks; loads on any number
  std::printf("rank %d: bias %.2f after %lld steps; %zu bytes of state for %zu of parameters\n",
              job.rank(), static_cast<double>(optimizer.values("bias").as<float>()[0]),
              static_cast<long long>(whole.steps), optimizer.memory_bytes().state,
              optimizer.memory_bytes().parameters);
  return std::isfinite(loss) ? 0 : 1;
}
