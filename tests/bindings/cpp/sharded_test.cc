// ShardedOptimizer on jobs of real processes: the bits of training that each rank does as a whole,
// clipping, accumulation, state that is saved and loaded with other numbers of ranks, and errors.
#include <doctest/doctest.h>
#include <ronde/sharded.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ops/kernels/optimizer.h"
#include "tests/backends/net/processes.h"
#include "tests/support/contains.h"

namespace ronde {
namespace {

using net::all_good;
using net::run_ranks;
using net::unique_job_id;
using test::contains;

/// Sanitizers end a process whose memory runs out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanRunOut = false;
#elif defined(__has_feature)
constexpr bool kMemoryCanRunOut =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMemoryCanRunOut = true;
#endif

using Values = std::vector<float>;

/// The parameters of a model, with their values.
struct Model {
  std::vector<std::string> names = {"weight", "scale", "empty", "bias", "table"};
  std::vector<Shape> shapes = {{3, 5}, {}, {0}, {130}, {40, 7}};
  std::vector<Values> values;

  Model() {
    for (std::size_t i = 0; i < names.size(); ++i) {
      values.emplace_back(static_cast<std::size_t>(element_count(shapes[i])));
      for (std::size_t k = 0; k < values[i].size(); ++k) values[i][k] = wave(i, k);
    }
  }

  static float wave(std::size_t i, std::size_t k) {
    return std::sin(static_cast<float>(k * 7 + i * 31 + 1));
  }
  /// A rank's gradient of a parameter in a step.
  [[nodiscard]] Values gradient(std::size_t i, int rank, int step) const {
    Values made(values[i].size());
    for (std::size_t k = 0; k < made.size(); ++k) {
      made[k] = wave(i + 3 * static_cast<std::size_t>(step), k) / static_cast<float>(3 + rank);
    }
    return made;
  }
  [[nodiscard]] std::vector<NamedTensor> named() const {
    std::vector<NamedTensor> made;
    for (std::size_t i = 0; i < names.size(); ++i) {
      made.push_back({names[i], tensor(values[i].data(), shapes[i])});
    }
    return made;
  }
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Training without shards: each rank has all averages, and updates all parameters.
class Dense {
 public:
  Dense(Job& job, const UpdateRule& rule) : job_(job), rule_(rule) {
    for (const Values& one : model.values) {
      state_.push_back({padded(one), Values(padded(one).size()), Values(padded(one).size())});
    }
  }

  /// The averaged gradients of a step.
  std::vector<Values> averages(int step) {
    std::vector<Values> made;
    for (std::size_t i = 0; i < model.names.size(); ++i) {
      made.push_back(model.gradient(i, job_.rank(), step));
      job_.allreduce("dense " + model.names[i], tensor(made.back()));
    }
    return made;
  }

  void step(std::vector<Values> gradients, float scale = 1) {
    ++steps_;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      auto& [values, first, second] = state_[i];
      std::visit([&](const auto& rule) { update(rule, scale, padded(gradients[i]), state_[i]); },
                 rule_);
      std::copy_n(values.begin(), model.values[i].size(), model.values[i].begin());
    }
  }

  Model model;

 private:
  struct State {
    Values values;
    Values first;
    Values second;
  };

  static Values padded(const Values& values) {
    constexpr std::size_t kStep = kernels::kUpdateStep;
    Values made(values);
    made.resize((values.size() + kStep - 1) / kStep * kStep);
    return made;
  }
  static void update(const Sgd& rule, float scale, const Values& gradient, State& state) {
    kernels::update_sgd(
        {scale, static_cast<float>(rule.learning_rate), static_cast<float>(rule.momentum),
         static_cast<float>(rule.weight_decay), rule.nesterov},
        gradient, state.values.data(), rule.momentum > 0 ? state.first.data() : nullptr);
  }
  template <typename Rule>
  void update(const Rule& rule, float scale, const Values& gradient, State& state) {
    constexpr bool kApart = std::is_same_v<Rule, AdamW>;
    const auto as_float = [](double value) { return static_cast<float>(value); };
    kernels::update_adam(
        {.gradient_scale = scale,
         .weight_decay = kApart ? 0 : as_float(rule.weight_decay),
         .keep = kApart ? as_float(1 - rule.learning_rate * rule.weight_decay) : 1,
         .mean_weight = as_float(1 - rule.beta1),
         .beta2 = as_float(rule.beta2),
         .variance_weight = as_float(1 - rule.beta2),
         .step_size = as_float(rule.learning_rate / (1 - std::pow(rule.beta1, steps_))),
         .root_correction = as_float(std::sqrt(1 - std::pow(rule.beta2, steps_))),
         .epsilon = as_float(rule.epsilon)},
        gradient, state.values.data(), state.first.data(), state.second.data());
  }

  Job& job_;
  UpdateRule rule_;
  int steps_ = 0;
  std::vector<State> state_;
};

/// Gives a sharded optimizer a rank's gradients of a step, the last parameters first.
void backward(ShardedOptimizer& optimizer, const Model& model, int rank, int step) {
  for (std::size_t i = model.names.size(); i-- > 0;) {
    const Values gradient = model.gradient(i, rank, step);
    std::copy(gradient.begin(), gradient.end(),
              optimizer.gradient(model.names[i]).as<float>().begin());
    optimizer.ready(model.names[i]);
  }
}

bool has_values(ShardedOptimizer& optimizer, const Model& model) {
  for (std::size_t i = 0; i < model.names.size(); ++i) {
    if (!same_bits(optimizer.values(i).as<float>(), model.values[i])) return false;
  }
  return true;
}

/// The text of the error of this type; empty: there was none.
template <typename Kind>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return {};
}

const std::vector<UpdateRule> kRules = {
    Sgd{.learning_rate = 0.1},
    Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
    Adam{.learning_rate = 0.01, .weight_decay = 0.1},
    AdamW{.learning_rate = 0.01, .weight_decay = 0.1},
};

const std::vector<ShardOptions> kOptions = {
    {},
    {.bucket_bytes = 600, .overlap = true},
    {.shard = Shard::kGradients, .bucket_bytes = 600},
    {.shard = Shard::kGradients, .bucket_bytes = 1, .overlap = true},
};

int check_bits(int rank) {
  Job job = init();
  for (const UpdateRule& rule : kRules) {
    for (const ShardOptions& options : kOptions) {
      Dense dense(job, rule);
      ShardedOptimizer optimizer(job, dense.model.named(), rule, options);
      for (int step = 0; step < 4; ++step) {
        backward(optimizer, dense.model, rank, step);
        optimizer.step();
        dense.step(dense.averages(step));
        RONDE_CHILD_REQUIRE(has_values(optimizer, dense.model));
      }
      RONDE_CHILD_REQUIRE(optimizer.steps() == 4);
    }
  }
  return 0;
}

int check_clipping(int rank) {
  Job job = init();
  for (const ShardOptions& options : kOptions) {
    Dense dense(job, kRules[3]);
    ShardedOptimizer optimizer(job, dense.model.named(), kRules[3], options);
    for (int step = 0; step < 3; ++step) {
      backward(optimizer, dense.model, rank, step);
      const auto gradients = dense.averages(step);
      DoubleDouble squares;
      for (const Values& one : gradients) {
        for (const float value : one) squares = squares + exact_product(value, value);
      }
      const double norm = std::sqrt(squares.hi);
      const double most = step == 2 ? 1e6 : norm / 3;
      RONDE_CHILD_REQUIRE(optimizer.clip_norm(most) == norm);
      optimizer.set_learning_rate(0.01);
      optimizer.step();
      const double factor = most / (norm + 1e-6);
      dense.step(gradients, factor < 1 ? static_cast<float>(factor) : 1.0F);
      RONDE_CHILD_REQUIRE(has_values(optimizer, dense.model));
    }
  }
  return 0;
}

/// As in torch, the factor is 0: an infinite gradient makes NaN of its own element alone.
int check_infinite_norm(int rank) {
  Job job = init();
  for (const ShardOptions& options : kOptions) {
    Model model;
    ShardedOptimizer optimizer(job, model.named(), Sgd{}, options);
    optimizer.gradient("table").as<float>()[3] = 1;
    if (rank == 0) optimizer.gradient("bias").as<float>()[129] = HUGE_VALF;
    RONDE_CHILD_REQUIRE(optimizer.clip_norm(1.0) == HUGE_VAL);
    optimizer.step();
    RONDE_CHILD_REQUIRE(std::isnan(optimizer.values("bias").as<float>()[129]));
    optimizer.values("bias").as<float>()[129] = model.values[3][129];
    RONDE_CHILD_REQUIRE(has_values(optimizer, model));
  }
  return 0;
}

int check_accumulation_and_rates(int rank) {
  Job job = init();
  for (const ShardOptions& options : kOptions) {
    Dense dense(job, Sgd{.learning_rate = 0.25});
    ShardedOptimizer optimizer(job, dense.model.named(), Sgd{.learning_rate = 1}, options);
    RONDE_CHILD_REQUIRE(optimizer.learning_rate() == 1);
    optimizer.set_learning_rate(0.25);
    // Two backward passes into "bias"; "table" is not used: its gradient is zero.
    for (int pass = 0; pass < 2; ++pass) {
      for (float& one : optimizer.gradient("bias").as<float>()) one += 0.5F;
    }
    optimizer.step();
    Model expected;
    for (float& one : expected.values[3]) one -= 0.25F;
    RONDE_CHILD_REQUIRE(has_values(optimizer, expected));
    for (float& one : optimizer.gradient("bias").as<float>()) one += 1;  // zeros again by now
    optimizer.skip_step();
    RONDE_CHILD_REQUIRE(has_values(optimizer, expected));
    RONDE_CHILD_REQUIRE(optimizer.steps() == 1);
    for (float& one : optimizer.gradient("bias").as<float>()) one = static_cast<float>(rank);
    optimizer.ready("bias");
    optimizer.step();
    const float mean = static_cast<float>(job.size() - 1) / 2;
    for (float& one : expected.values[3]) one -= 0.25F * mean;
    RONDE_CHILD_REQUIRE(has_values(optimizer, expected));
  }
  return 0;
}

/// Two optimizers have parameters of equal names, and their operations are under way together.
int check_equal_names(int rank) {
  Job job = init();
  for (const ShardOptions& options : kOptions) {
    Dense dense(job, kRules[1]);
    ShardedOptimizer one(job, dense.model.named(), kRules[1], options);
    ShardedOptimizer two(job, dense.model.named(), kRules[1], options);
    for (int step = 0; step < 2; ++step) {
      // Ranks begin with different ones: no reduction ends before both are under way.
      for (const bool last : {false, true}) {
        backward((rank == 0) == last ? one : two, dense.model, rank, step);
      }
      one.step();
      two.step();
      dense.step(dense.averages(step));
    }
    RONDE_CHILD_REQUIRE(has_values(one, dense.model));
    RONDE_CHILD_REQUIRE(has_values(two, dense.model));
  }
  return 0;
}

/// Ranks whose gradients are alike train alike, however many they are.
void train_alike(ShardedOptimizer& optimizer, const Model& model, int steps, int from) {
  for (int step = from; step < from + steps; ++step) {
    backward(optimizer, model, 1, step);
    optimizer.step();
  }
}

bool same_state(const ShardedState& a, const ShardedState& b) {
  if (a.rule != b.rule || a.steps != b.steps || a.tensors.size() != b.tensors.size()) return false;
  for (const StateTensor& one : a.tensors) {
    const auto other = std::find_if(b.tensors.begin(), b.tensors.end(), [&](const auto& it) {
      return it.parameter == one.parameter && it.kind == one.kind;
    });
    if (other == b.tensors.end() || other->shape != one.shape || other->begin != one.begin ||
        !same_bits(other->values, one.values)) {
      return false;
    }
  }
  return true;
}

/// State of two ranks goes on with one and with three.
int check_state(int rank) {
  Job job = init();
  const Model model;
  const UpdateRule rule = AdamW{.learning_rate = 0.01};
  const ProcessSet pair = job.add_process_set({0, 1});
  const ProcessSet last = job.add_process_set({2});
  const ProcessSet mine = rank == 2 ? last : pair;
  ShardedOptimizer apart(job, model.named(), rule, {.bucket_bytes = 600, .set = mine});
  train_alike(apart, model, 2, 0);
  const ShardedState whole = apart.save();
  const ShardedState own = apart.save_shard();
  RONDE_CHILD_REQUIRE(whole.ranks == 1);
  RONDE_CHILD_REQUIRE(whole.steps == 2);
  RONDE_CHILD_REQUIRE(own.ranks == (rank == 2 ? 1 : 2));
  if (rank == 2) RONDE_CHILD_REQUIRE(same_state(whole, own));
  RONDE_CHILD_REQUIRE(same_state(merge_sharded_states(std::vector{whole}), whole));

  ShardedOptimizer all(job, model.named(), rule, {.bucket_bytes = 2000});
  for (std::size_t i = 0; i < model.names.size(); ++i) {
    const Array from = apart.values(i);
    std::copy_n(from.data.get(), static_cast<std::size_t>(from.count()) * 4,
                all.values(i).data.get());
  }
  all.load(whole);
  RONDE_CHILD_REQUIRE(same_state(all.save(), whole));
  train_alike(all, model, 2, 2);
  train_alike(apart, model, 2, 2);
  RONDE_CHILD_REQUIRE(same_state(all.save(), apart.save()));
  RONDE_CHILD_REQUIRE(same_bits(all.values(4).as<float>(), apart.values(4).as<float>()));

  apart.load(own);  // back to the second step
  RONDE_CHILD_REQUIRE(same_state(apart.save(), whole));
  const std::string text = error_of<Mismatch>([&] { all.load(own); });
  RONDE_CHILD_REQUIRE(contains(text, "on rank 0 the state was saved by 2 ranks, but 3 load it"));
  RONDE_CHILD_REQUIRE(same_state(all.save(), all.save()));  // the job goes on
  return 0;
}

ShardedState shard(int rank, int ranks, std::int64_t begin, std::size_t count) {
  return {.rule = "sgd",
          .steps = 3,
          .rank = rank,
          .ranks = ranks,
          .tensors = {{"w", "momentum", {8}, begin, Values(count, static_cast<float>(rank))}}};
}

/// The error of merging these.
std::string merge_error(const std::vector<ShardedState>& shards) {
  return error_of<InvalidArgument>([&] { (void)merge_sharded_states(shards); });
}

int check_states_that_do_not_fit(int rank) {
  Job job = init();
  const Values values(8);
  const std::vector<NamedTensor> parameters = {{"w", tensor(values)}};
  const UpdateRule rule = Sgd{.momentum = 0.5};
  ShardedOptimizer optimizer(job, parameters, rule);
  optimizer.load(merge_sharded_states(std::vector{shard(1, 2, 3, 5), shard(0, 2, 0, 3)}));
  RONDE_CHILD_REQUIRE(optimizer.steps() == 3);
  const auto error = [&](const ShardedState& state) {
    return error_of<Mismatch>([&] { optimizer.load(state); });
  };
  RONDE_CHILD_REQUIRE(contains(error({.rule = "adam"}),
                               "on rank 0 the state is of adam, but the optimizer is sgd"));
  ShardedState other = shard(0, 1, 0, 8);
  other.tensors[0].parameter = "v";
  RONDE_CHILD_REQUIRE(contains(error(other), "the state has no \"momentum\" of \"w\""));
  const ShardedState odd = rank == 1 ? ShardedState{.rule = "adam"} : optimizer.save_shard();
  RONDE_CHILD_REQUIRE(contains(error(odd), "on rank 1 the state is of adam"));
  other = shard(0, 1, 0, 8);
  other.tensors[0].shape = {2, 4};
  RONDE_CHILD_REQUIRE(contains(error(other), "with the shape [2, 4], not [8]"));
  RONDE_CHILD_REQUIRE(contains(error(shard(0, 1, 0, 7)), "has elements 0 to 7 of"));
  ShardedState swapped = optimizer.save_shard();
  swapped.rank = 1 - swapped.rank;
  RONDE_CHILD_REQUIRE(contains(error(swapped), "the shard of rank 1 was given to rank 0"));
  other = shard(0, 1, 0, 8);
  other.steps = rank == 1 ? 2 : 3;
  RONDE_CHILD_REQUIRE(contains(error(other),
                               "rank 0 has that of 3 steps and learning_rate=0, rank 1 of 2 steps "
                               "and learning_rate=0"));
  other.steps = 3;
  other.learning_rate = rank == 1 ? 0.25 : 0.5;
  RONDE_CHILD_REQUIRE(contains(error(other), "rank 1 of 3 steps and learning_rate=0.25"));
  other.learning_rate = rank == 1 ? -1 : 0.5;
  RONDE_CHILD_REQUIRE(
      contains(error(other), "on rank 1 learning_rate=-1; allowed: numbers from 0"));
  RONDE_CHILD_REQUIRE(optimizer.steps() == 3);
  return 0;
}

/// Parameters of 16 bits follow float32 copies, which keep steps too small for them.
int check_half(int) {
  Job job = init();
  std::vector<Bfloat16> ones(100, Bfloat16{0x3f80});
  const std::vector<NamedTensor> parameters = {{"w", tensor(ones)}};
  ShardedOptimizer optimizer(job, parameters, Sgd{.learning_rate = 0x1p-10});
  const auto train = [](ShardedOptimizer& one, int steps) {
    for (int step = 0; step < steps; ++step) {
      for (Bfloat16& gradient : one.gradient(0).as<Bfloat16>()) gradient.bits = 0x3f80;
      one.step();
    }
  };
  RONDE_CHILD_REQUIRE(optimizer.save().tensors[0].values[99] == 1);
  for (Bfloat16& one : optimizer.values(0).as<Bfloat16>()) one.bits = 0x4000;  // 2
  const ShardedState early = optimizer.save();
  RONDE_CHILD_REQUIRE(early.tensors[0].values[99] == 2);
  for (Bfloat16& one : optimizer.values(0).as<Bfloat16>()) one.bits = 0x3f80;
  RONDE_CHILD_REQUIRE(optimizer.save_shard().tensors[0].values[0] == 1);
  optimizer.load(early);
  RONDE_CHILD_REQUIRE(optimizer.values(0).as<Bfloat16>()[99].bits == 0x4000);
  for (Bfloat16& one : optimizer.values(0).as<Bfloat16>()) one.bits = 0x3f80;
  train(optimizer, 1);  // 1 - 2^-10 is 1 in bfloat16
  RONDE_CHILD_REQUIRE(optimizer.values(0).as<Bfloat16>()[99].bits == 0x3f80);
  const ShardedState saved = optimizer.save();
  RONDE_CHILD_REQUIRE(saved.tensors.size() == 1);
  RONDE_CHILD_REQUIRE(saved.tensors[0].kind == "values");
  RONDE_CHILD_REQUIRE(saved.tensors[0].values[99] == 1 - 0x1p-10F);
  train(optimizer, 3);
  RONDE_CHILD_REQUIRE(optimizer.values(0).as<Bfloat16>()[99].bits == 0x3f7f);  // 1 - 2^-8
  optimizer.load(saved);
  train(optimizer, 3);
  RONDE_CHILD_REQUIRE(optimizer.values(0).as<Bfloat16>()[99].bits == 0x3f7f);
  for (Bfloat16& one : optimizer.values(0).as<Bfloat16>()) one.bits = 0x4000;  // 2
  train(optimizer, 1);
  RONDE_CHILD_REQUIRE(optimizer.save().tensors[0].values[0] == 2 - 0x1p-10F);
  return 0;
}

int check_memory(int) {
  Job job = init();
  constexpr std::size_t kCount = 1 << 16;  // a power of two: no padding
  const std::vector<Values> values(8, Values(kCount));
  std::vector<NamedTensor> parameters;
  for (std::size_t i = 0; i < values.size(); ++i) {
    parameters.push_back({std::to_string(i), tensor(values[i])});
  }
  constexpr std::size_t kBytes = kCount * sizeof(float);
  for (const Shard kind : {Shard::kOptimizer, Shard::kGradients}) {
    ShardedOptimizer optimizer(job, parameters, Adam{}, {.shard = kind, .bucket_bytes = kBytes});
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        RONDE_CHILD_REQUIRE(optimizer.gradient(i).as<float>()[0] == 0);
        optimizer.ready(i);
        job.barrier();  // no rank is slow
      }
      optimizer.step();
    }
    const ShardedMemory memory = optimizer.memory_bytes();
    RONDE_CHILD_REQUIRE(memory.parameters == 8 * kBytes);
    RONDE_CHILD_REQUIRE(memory.state == 8 * kBytes);
    if (kind == Shard::kOptimizer) {
      RONDE_CHILD_REQUIRE(memory.gradients == 8 * kBytes);
      RONDE_CHILD_REQUIRE(memory.shard == 0);
    } else {
      RONDE_CHILD_REQUIRE(memory.gradients <= 2 * kBytes);
      RONDE_CHILD_REQUIRE(memory.shard == 8 * kBytes / 2);
    }
  }
  return 0;
}

int check_own_errors(int) {
  Job job = init();
  const Model model;
  ShardedOptimizer optimizer(job, model.named(), Sgd{});
  const auto error = [](const std::function<void()>& call) {
    return error_of<InvalidArgument>(call);
  };
  RONDE_CHILD_REQUIRE(error([&] { (void)optimizer.gradient("wait"); }) ==
                      "there is no parameter \"wait\"; there are 5: \"weight\", \"scale\", "
                      "\"empty\", \"bias\", ...");
  RONDE_CHILD_REQUIRE(contains(error([&] { optimizer.ready(5); }), "there is no parameter 5;"));
  optimizer.ready("bias");
  const std::string twice =
      "the gradient of \"bias\" is complete in this step already; step() or skip_step() comes "
      "before the next one";
  RONDE_CHILD_REQUIRE(error([&] { optimizer.ready("bias"); }) == twice);
  RONDE_CHILD_REQUIRE(error([&] { (void)optimizer.gradient("bias"); }) == twice);
  optimizer.step();
  optimizer.ready("bias");
  RONDE_CHILD_REQUIRE(error([&] { (void)optimizer.clip_norm(0); }) ==
                      "clip_norm(0); allowed: numbers above 0");
  RONDE_CHILD_REQUIRE(error([&] { optimizer.set_learning_rate(-1); }) ==
                      "learning_rate=-1; allowed: numbers from 0");
  optimizer.step();
  job.barrier();
  return 0;
}

int check_errors_of_all(int rank) {
  Job job = init();
  const Model model;
  const auto made = [&](const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                        const ShardOptions& options = {}) {
    const ShardedOptimizer optimizer(job, parameters, rule, options);
  };
  const auto refused = [&](const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                           const ShardOptions& options = {}) {
    return error_of<InvalidArgument>([&] { made(parameters, rule, options); });
  };
  const auto differs = [&](const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                           const ShardOptions& options = {}) {
    return error_of<Mismatch>([&] { made(parameters, rule, options); });
  };
  std::vector<NamedTensor> odd = model.named();
  if (rank == 1) odd[2].name = "bias";
  RONDE_CHILD_REQUIRE(refused(odd, Sgd{}) ==
                      "sharded optimizer, on rank 1: \"bias\" is the name of two parameters");
  std::vector<std::int32_t> whole(4);
  const std::vector<NamedTensor> integers = {{"n", tensor(whole)}};
  RONDE_CHILD_REQUIRE(contains(refused(integers, Sgd{}),
                               "the parameter \"n\" is of dtype int32; allowed: float32, "));
  RONDE_CHILD_REQUIRE(contains(refused({}, Sgd{}), "there are no parameters"));
  RONDE_CHILD_REQUIRE(contains(refused(model.named(), Adam{.beta2 = rank == 0 ? 1.0 : 0.9}),
                               "on rank 0: beta2=1; allowed: numbers from 0, below 1"));
  RONDE_CHILD_REQUIRE(contains(refused(model.named(), Sgd{.nesterov = true}), "needs momentum"));
  RONDE_CHILD_REQUIRE(contains(refused(model.named(), Sgd{}, {.op = ReduceOp::kMax}),
                               "op=max; allowed: average, sum"));

  odd = model.named();
  if (rank == 1) odd[0].tensor.shape = {5, 3};
  RONDE_CHILD_REQUIRE(differs(odd, Sgd{}) ==
                      "the sharded optimizers differ: rank 0 has \"weight\" (float32[3, 5]), "
                      "rank 1 has \"weight\" (float32[5, 3])");
  if (rank == 1) odd = {model.named()[0]};
  if (rank == 0) odd = model.named();
  RONDE_CHILD_REQUIRE(contains(differs(odd, Sgd{}),
                               "rank 0 has \"scale\" (float32[]), rank 1 has no more than 1 par"));
  RONDE_CHILD_REQUIRE(contains(differs(model.named(), Sgd{.learning_rate = rank == 0 ? 1.0 : 2.0}),
                               "rank 1 has sgd learning_rate=2 "));
  RONDE_CHILD_REQUIRE(contains(
      differs(model.named(), Sgd{}, {.bucket_bytes = rank == 0 ? std::size_t{8} : std::size_t{9}}),
      "rank 1 has shard=optimizer bucket_bytes=9"));
  job.barrier();
  return 0;
}

/// The memory that this process may still map.
void limit_memory(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<std::size_t>(::getpagesize()) + bytes;
  ::setrlimit(RLIMIT_AS, &limit);
}

int check_lack_of_memory(int rank) {
  Job job = init();
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  if (rank == 1) limit_memory(std::size_t{16} << 20);
  const float value = 1;
  const std::vector<NamedTensor> parameters = {{"w", tensor(&value, {1 << 24})}};
  const std::string text =
      error_of<ResourceExhausted>([&] { ShardedOptimizer(job, parameters, Adam{}); });
  ::setrlimit(RLIMIT_AS, &before);
  RONDE_CHILD_REQUIRE(contains(text, "sharded optimizer: on rank 1 cannot make its buckets: "));
  const Model model;
  ShardedOptimizer optimizer(job, model.named(), Adam{});
  RONDE_CHILD_REQUIRE(has_values(optimizer, model));
  return 0;
}

int check_values_that_are_not_finite(int rank) {
  Job job = init();
  Dense dense(job, kRules[3]);
  ShardedOptimizer optimizer(job, dense.model.named(), kRules[3]);
  if (rank == 1) optimizer.gradient("bias").as<float>()[129] = std::nanf("");
  const std::string text = error_of<NonFinite>([&] { optimizer.step(); });
  RONDE_CHILD_REQUIRE(contains(text, "rank 1 put in NaN"));
  RONDE_CHILD_REQUIRE(has_values(optimizer, dense.model));
  RONDE_CHILD_REQUIRE(optimizer.steps() == 0);
  backward(optimizer, dense.model, rank, 0);
  optimizer.step();
  dense.step(dense.averages(0));
  RONDE_CHILD_REQUIRE(has_values(optimizer, dense.model));
  return 0;
}

/// Runs `body` on ranks that init() joins, in deterministic mode.
void run_job(int ranks, int (*body)(int), const char* nonfinite = "off") {
  const std::string id = unique_job_id();
  INFO(ranks, " ranks");
  CHECK(run_ranks(ranks, [&](int rank) {
          // NOLINTBEGIN(concurrency-mt-unsafe): one thread yet
          ::setenv("RONDE_JOB_ID", id.c_str(), 1);
          ::setenv("RONDE_RANK", std::to_string(rank).c_str(), 1);
          ::setenv("RONDE_SIZE", std::to_string(ranks).c_str(), 1);
          ::setenv("RONDE_DETERMINISTIC", "1", 1);
          ::setenv("RONDE_CHECK_NONFINITE", nonfinite, 1);
          // NOLINTEND(concurrency-mt-unsafe)
          return body(rank);
        }) == all_good(ranks));
}

}  // namespace

TEST_CASE("Sharded training has the bits of dense training") {
  for (const int ranks : {1, 2, 3}) run_job(ranks, check_bits);
}

TEST_CASE("Sharded gradients are clipped by the norm of the whole") {
  for (const int ranks : {1, 3}) run_job(ranks, check_clipping);
}

TEST_CASE("An infinite gradient has a norm of infinity, and spoils its own element alone") {
  run_job(2, check_infinite_norm);
}

TEST_CASE("Gradients of several passes accumulate, and rates change") {
  run_job(2, check_accumulation_and_rates);
}

TEST_CASE("Two optimizers of equal parameters train at once") { run_job(2, check_equal_names); }

TEST_CASE("The state of two ranks goes on with one and with three") { run_job(3, check_state); }

TEST_CASE("A state that does not fit is refused on all ranks") {
  run_job(2, check_states_that_do_not_fit);
}

TEST_CASE("Parameters of 16 bits have float32 copies, of which each rank keeps a part") {
  run_job(2, check_half);
}

TEST_CASE("Two ranks keep half of the state each") { run_job(2, check_memory); }

TEST_CASE("Wrong calls of a sharded optimizer name the value and what is allowed") {
  run_job(2, check_own_errors);
}

TEST_CASE("Parameters and options that differ are told on all ranks") {
  run_job(2, check_errors_of_all);
}

TEST_CASE("A rank without memory for its buckets is told on all ranks" *
          doctest::skip(!kMemoryCanRunOut)) {
  run_job(2, check_lack_of_memory);
}

TEST_CASE("A step with a value that is not finite fails on all ranks and changes nothing") {
  run_job(2, check_values_that_are_not_finite, "fail");
}

TEST_CASE("Shards that do not make a whole are refused") {
  CHECK(contains(merge_error({}), "no shards were given"));
  CHECK(merge_error({shard(0, 3, 0, 3), shard(2, 3, 6, 2)}) ==
        "merging shards: the shard of rank 1 is missing: the state was saved by 3 ranks, and those "
        "of 0, 2 were given");
  CHECK(contains(merge_error({shard(0, 1, 0, 8), shard(0, 1, 0, 8)}), "one is there twice"));
  CHECK(contains(merge_error({shard(0, 2, 0, 3), shard(1, 2, 4, 4)}), "make 3 of its 8 elements"));
  CHECK(contains(merge_error({shard(0, 2, 0, 3), shard(1, 3, 4, 4)}), "of different optimizers"));
}

}  // namespace ronde
