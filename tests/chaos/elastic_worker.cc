// Counts each sample of a data set once an epoch, whatever happens to the job. Prints "RESULT ok"
// once all have been counted as often as they should be, "WRONG ..." for a sum that is not what it
// must be. As elastic_worker.py, with its variables: CHAOS_EPOCHS, CHAOS_WEIGHTS.
#include <ronde/elastic.h>
#include <ronde/ronde.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kSamples = 211;
constexpr std::int64_t kBatch = 5;

std::int64_t variable(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::atoll(text);
}

class Training {
 public:
  Training() {
    state_.add("counts", ronde::tensor(counts_));
    state_.add("weights", ronde::tensor(weights_));
    state_.add("sampler", sampler_);
    state_.add("steps", steps_);
  }

  /// The exit status.
  int run() {
    if (!ronde::elastic::run(state_, [this] { train(); })) return 0;
    check_result();
    return 0;
  }

 private:
  void train() {
    while (sampler_.epoch() < epochs_) {
      // All ranks take as many steps, also those that have no sample left.
      std::vector<std::int64_t> mine = sampler_.indices();
      while (!sampler_.done()) {
        step(mine);
        mine.erase(mine.begin(), mine.begin() + std::min<std::ptrdiff_t>(kBatch, std::ssize(mine)));
        sampler_.record_batch(kBatch);
        state_.commit();
      }
      sampler_.set_epoch(sampler_.epoch() + 1);
    }
  }

  /// Counts the first samples, and takes a step whose result does not depend on the ranks.
  void step(const std::vector<std::int64_t>& mine) {
    counted_.assign(kSamples, 0);
    for (std::size_t i = 0; i < std::min<std::size_t>(kBatch, mine.size()); ++i) {
      counted_[static_cast<std::size_t>(mine[i])] = 1;
    }
    sum("counts", ronde::tensor(counted_));
    std::transform(counts_.begin(), counts_.end(), counted_.begin(), counts_.begin(), std::plus());

    ones_.assign(77, 1);
    sum("ones", ronde::tensor(ones_));
    if (std::any_of(ones_.begin(), ones_.end(), [&](double one) { return one != job_.size(); })) {
      wrong("sum of ones");
    }
    gradient_.assign(weights_.size(), static_cast<float>(steps_ % 8));
    job_.allreduce("weights", ronde::tensor(gradient_));
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] += gradient_[i];
    ++steps_;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
  }

  void sum(const char* name, const ronde::Tensor& tensor) {
    job_.allreduce(name, tensor, {.op = ronde::ReduceOp::kSum});
  }

  void wrong(const std::string& what) {
    std::printf("WRONG %s at step %lld of rank %d\n", what.c_str(), static_cast<long long>(steps_),
                job_.rank());
    std::fflush(stdout);
  }

  void check_result() {
    const auto counted = static_cast<double>(epochs_);
    float weight = 0;
    for (std::int64_t i = 0; i < steps_; ++i) weight += static_cast<float>(i % 8);
    if (std::any_of(counts_.begin(), counts_.end(), [&](double n) { return n != counted; })) {
      wrong("counts of samples");
    } else if (std::any_of(weights_.begin(), weights_.end(),
                           [&](float w) { return w != weight; })) {
      wrong("weights");
    } else {
      std::printf("RESULT ok after %lld steps\n", static_cast<long long>(steps_));
    }
  }

  const std::int64_t epochs_ = variable("CHAOS_EPOCHS", 6);
  std::vector<double> counts_ = std::vector<double>(kSamples);
  std::vector<float> weights_ =
      std::vector<float>(static_cast<std::size_t>(variable("CHAOS_WEIGHTS", 1000)));
  std::int64_t steps_ = 0;
  // Buffers of operations, which outlive a failed one.
  std::vector<double> counted_;
  std::vector<double> ones_;
  std::vector<float> gradient_;
  std::minstd_rand random_{std::random_device{}()};
  ronde::Job job_ = ronde::init();
  ronde::elastic::ExactSampler sampler_{job_, kSamples, true, 3};
  ronde::elastic::State state_{job_};
};

}  // namespace

int main() {
  try {
    return Training().run();
  } catch (const ronde::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
