// A training loop in C++: a small network, written by hand, learns to read handwritten digits. Each
// rank computes the gradient of its share of a batch; Ronde averages the gradients, each submitted
// as soon as the backward pass has it.
//   python examples/export_digits.py digits.csv
//   ronde run -np 2 build/release/examples/digits_mlp digits.csv
// Batches are cut from one global order, so two ranks with 32 samples each take the same steps as
// one rank with 64: digits_mlp DIGITS.CSV [SAMPLES_PER_RANK] [EPOCHS].
#include <ronde/ronde.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kPixels = 64;
constexpr std::size_t kHidden = 64;
constexpr std::size_t kClasses = 10;
constexpr float kLearningRate = 0.1F;
constexpr float kMomentum = 0.9F;
constexpr unsigned kSeed = 7;

using Values = std::vector<float>;

struct Sample {
  Values pixels;  // from 0 to 1
  std::size_t label = 0;
};

/// One line a sample: 64 pixels from 0 to 16, then the digit.
std::vector<Sample> read_samples(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + "; see export_digits.py");
  std::vector<Sample> samples;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Values row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(std::stof(field));
    if (row.size() != kPixels + 1) throw std::runtime_error(path + ": a line has not 65 fields");
    Sample sample{Values(row.begin(), row.end() - 1), static_cast<std::size_t>(row.back())};
    for (float& pixel : sample.pixels) pixel /= 16.0F;
    samples.push_back(std::move(sample));
  }
  return samples;
}

/// The same shuffled order on all ranks and with every standard library.
std::vector<std::size_t> shuffled(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

/// Weights, their gradients and the optimizer's velocity, of one tensor of the model.
struct Parameter {
  std::string name;
  Values value;
  Values gradient;
  Values velocity;

  Parameter(std::string its_name, std::size_t count, float scale, unsigned seed)
      : name(std::move(its_name)), value(count), gradient(count), velocity(count) {
    std::mt19937 random(seed);
    for (float& weight : value) {
      weight = scale * (static_cast<float>(random() % 65536U) / 32768.0F - 1.0F);
    }
  }

  void step() {
    for (std::size_t i = 0; i < value.size(); ++i) {
      velocity[i] = kMomentum * velocity[i] + gradient[i];
      value[i] -= kLearningRate * velocity[i];
    }
  }
};

/// out[o] = bias[o] + sum over i of weight[o][i] * in[i].
void linear(const Values& weight, const Values& bias, const Values& in, Values& out) {
  for (std::size_t o = 0; o < out.size(); ++o) {
    out[o] = std::inner_product(
        in.begin(), in.end(), weight.begin() + static_cast<std::ptrdiff_t>(o * in.size()), bias[o]);
  }
}

class Model {
 public:
  Model() = default;

  std::vector<Parameter*> parameters() { return {&weight1_, &bias1_, &weight2_, &bias2_}; }

  std::size_t predict(const Sample& sample) {
    forward(sample);
    return static_cast<std::size_t>(std::max_element(probabilities_.begin(), probabilities_.end()) -
                                    probabilities_.begin());
  }

  /// Adds the gradient of the output layer of one sample and returns its loss.
  float add_output_gradient(const Sample& sample, float scale, Values& hidden_error) {
    forward(sample);
    const float loss = -std::log(std::max(probabilities_[sample.label], 1e-12F));
    hidden_error.assign(kHidden, 0.0F);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float error = scale * (probabilities_[c] - (c == sample.label ? 1.0F : 0.0F));
      bias2_.gradient[c] += error;
      for (std::size_t h = 0; h < kHidden; ++h) {
        weight2_.gradient[c * kHidden + h] += error * hidden_[h];
        if (hidden_[h] > 0.0F) hidden_error[h] += error * weight2_.value[c * kHidden + h];
      }
    }
    return loss;
  }

  void add_hidden_gradient(const Sample& sample, const Values& hidden_error) {
    for (std::size_t h = 0; h < kHidden; ++h) {
      bias1_.gradient[h] += hidden_error[h];
      for (std::size_t p = 0; p < kPixels; ++p) {
        weight1_.gradient[h * kPixels + p] += hidden_error[h] * sample.pixels[p];
      }
    }
  }

  Parameter& weight1() { return weight1_; }
  Parameter& bias1() { return bias1_; }
  Parameter& weight2() { return weight2_; }
  Parameter& bias2() { return bias2_; }

 private:
  void forward(const Sample& sample) {
    linear(weight1_.value, bias1_.value, sample.pixels, hidden_);
    for (float& value : hidden_) value = std::max(value, 0.0F);
    linear(weight2_.value, bias2_.value, hidden_, probabilities_);
    const float largest = *std::max_element(probabilities_.begin(), probabilities_.end());
    float sum = 0.0F;
    for (float& value : probabilities_) sum += value = std::exp(value - largest);
    for (float& value : probabilities_) value /= sum;
  }

  Parameter weight1_{"layer1/weight", kHidden* kPixels, 0.2F, kSeed};
  Parameter bias1_{"layer1/bias", kHidden, 0.0F, kSeed};
  Parameter weight2_{"layer2/weight", kClasses* kHidden, 0.2F, kSeed + 1};
  Parameter bias2_{"layer2/bias", kClasses, 0.0F, kSeed};
  Values hidden_ = Values(kHidden);
  Values probabilities_ = Values(kClasses);
};

/// One step on this rank's samples; returns the sum of their losses.
float train_step(ronde::Job& job, Model& model, const std::vector<const Sample*>& batch) {
  for (Parameter* parameter : model.parameters()) {
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0F);
  }
  std::vector<ronde::Pending> pending;
  const auto submit = [&](Parameter& parameter) {
    pending.push_back(job.allreduce_async(parameter.name, ronde::tensor(parameter.gradient)));
  };
  float loss = 0.0F;
  std::vector<Values> errors(batch.size());
  const float scale = 1.0F / static_cast<float>(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    loss += model.add_output_gradient(*batch[i], scale, errors[i]);
  }
  submit(model.weight2());  // on its way while the layer below is computed
  submit(model.bias2());
  for (std::size_t i = 0; i < batch.size(); ++i) model.add_hidden_gradient(*batch[i], errors[i]);
  submit(model.weight1());
  submit(model.bias1());
  for (const ronde::Pending& one : pending) one.wait();
  for (Parameter* parameter : model.parameters()) parameter->step();
  return loss;
}

/// Trains one epoch; returns the mean loss over all ranks.
double train_epoch(ronde::Job& job, Model& model, const std::vector<Sample>& samples,
                   std::size_t share, unsigned epoch) {
  const std::vector<std::size_t> order = shuffled(samples.size(), kSeed + epoch);
  const std::size_t whole = share * static_cast<std::size_t>(job.size());
  const std::size_t own = share * static_cast<std::size_t>(job.rank());
  std::vector<double> loss(1, 0.0);
  std::size_t steps = 0;
  for (std::size_t begin = 0; begin + whole <= order.size(); begin += whole, ++steps) {
    std::vector<const Sample*> batch;
    for (std::size_t i = 0; i < share; ++i) batch.push_back(&samples[order[begin + own + i]]);
    loss[0] += static_cast<double>(train_step(job, model, batch));
  }
  job.allreduce("loss", ronde::tensor(loss), {.op = ronde::ReduceOp::kSum});
  return loss[0] / static_cast<double>(steps * whole);
}

double accuracy(Model& model, const std::vector<Sample>& samples) {
  const auto right = std::count_if(samples.begin(), samples.end(), [&](const Sample& sample) {
    return model.predict(sample) == sample.label;
  });
  return static_cast<double>(right) / static_cast<double>(samples.size());
}

int train(const std::string& path, std::size_t share, unsigned epochs) {
  auto job = ronde::init();
  std::vector<Sample> all = read_samples(path);
  std::vector<Sample> train_samples;
  std::vector<Sample> test_samples;
  for (const std::size_t index : shuffled(all.size(), kSeed)) {
    (test_samples.size() < all.size() / 5 ? test_samples : train_samples).push_back(all[index]);
  }
  if (share * static_cast<std::size_t>(job.size()) > train_samples.size()) {
    throw std::runtime_error("there are fewer samples than one batch takes");
  }
  Model model;
  for (Parameter* parameter : model.parameters()) {
    job.broadcast(parameter->name, ronde::tensor(parameter->value), 0);
  }
  for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
    const double loss = train_epoch(job, model, train_samples, share, epoch);
    if (job.rank() == 0) std::printf("epoch %u loss %.9f\n", epoch, loss);
  }
  if (job.rank() == 0) std::printf("test accuracy %.4f\n", accuracy(model, test_samples));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: digits_mlp DIGITS.CSV [SAMPLES_PER_RANK] [EPOCHS]\n");
    return 2;
  }
  const int share = argc > 2 ? std::atoi(argv[2]) : 32;
  const int epochs = argc > 3 ? std::atoi(argv[3]) : 20;
  if (share < 1 || epochs < 1) {
    std::fprintf(stderr, "digits_mlp: samples and epochs are whole numbers from 1\n");
    return 2;
  }
  try {
    return train(argv[1], static_cast<std::size_t>(share), static_cast<unsigned>(epochs));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits_mlp: %s\n", error.what());
    return 1;
  }
}
