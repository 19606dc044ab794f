// ShardedOptimizer: gradients leave by buckets, each rank updates its chunks, parameters return.
#include "ronde/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "bindings/cpp/sharded_bucket.h"
#include "bindings/cpp/sharded_state.h"
#include "bindings/runtime/groups/process_sets.h"
#include "bindings/runtime/replicas.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"

namespace ronde {
namespace {

using sharded::Bucket;
using sharded::Context;
using sharded::Slot;
using sharded::Spaces;

constexpr std::size_t kListed = 4;  // parameters in a message

/// The name of a range's bounds and a value outside of them; empty if it is inside.
std::string outside(std::string_view name, double value, double most) {
  if (value >= 0.0 && value < most) return {};
  const std::string below = std::isinf(most) ? "" : fmt::format(", below {}", most);
  return fmt::format("{}={}; allowed: numbers from 0{}", name, value, below);
}

std::string problem_of(const Sgd& rule) {
  if (rule.nesterov && rule.momentum == 0.0) return "nesterov=true; it needs momentum above 0";
  return outside("momentum", rule.momentum, 1.0);
}

std::string problem_of(const auto& adam) {
  for (std::string text : {outside("beta1", adam.beta1, 1.0), outside("beta2", adam.beta2, 1.0),
                           outside("epsilon", adam.epsilon, HUGE_VAL)}) {
    if (!text.empty()) return text;
  }
  return {};
}

std::string problem_of_rule(const UpdateRule& rule) {
  return std::visit(
      [](const auto& one) {
        std::string text = outside("learning_rate", one.learning_rate, HUGE_VAL);
        if (text.empty()) text = outside("weight_decay", one.weight_decay, HUGE_VAL);
        return text.empty() ? problem_of(one) : text;
      },
      rule);
}

std::string described(const Sgd& rule) {
  return fmt::format("sgd learning_rate={} momentum={} nesterov={} weight_decay={}",
                     rule.learning_rate, rule.momentum, rule.nesterov, rule.weight_decay);
}

std::string described(const auto& adam) {
  return fmt::format("{} learning_rate={} beta1={} beta2={} epsilon={} weight_decay={}",
                     sharded::name_of(adam), adam.learning_rate, adam.beta1, adam.beta2,
                     adam.epsilon, adam.weight_decay);
}

std::string problem_of_tensor(const NamedTensor& one) {
  const Tensor& tensor = one.tensor;
  const bool served = tensor.dtype == DType::kFloat32 || tensor.dtype == DType::kFloat16 ||
                      tensor.dtype == DType::kBfloat16;
  std::string why;
  if (!served) {
    why =
        fmt::format("is of dtype {}; allowed: float32, float16, bfloat16", to_string(tensor.dtype));
  } else if (tensor.cuda_device >= 0) {
    why = "is in the memory of a device; allowed is host memory";
  } else if (tensor.in == nullptr && element_count(tensor.shape) > 0) {
    why = "has no values: its address is null";
  }
  return why.empty() ? why : fmt::format("the parameter \"{}\" {}", one.name, why);
}

std::string problem_of_all(const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                           const ShardOptions& options) {
  if (parameters.empty()) return "there are no parameters";
  if (options.op != ReduceOp::kAverage && options.op != ReduceOp::kSum) {
    return fmt::format("op={}; allowed: average, sum", to_string(options.op));
  }
  std::set<std::string_view> names;
  for (const NamedTensor& one : parameters) {
    if (!names.insert(one.name).second) {
      return fmt::format("\"{}\" is the name of two parameters", one.name);
    }
    if (std::string text = problem_of_tensor(one); !text.empty()) return text;
  }
  return problem_of_rule(rule);
}

/// A line for each thing that all ranks must have alike.
std::string facts_of(const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                     const ShardOptions& options) {
  std::string text = fmt::format("shard={} bucket_bytes={} op={}\n{}\n",
                                 options.shard == Shard::kOptimizer ? "optimizer" : "gradients",
                                 options.bucket_bytes, to_string(options.op),
                                 std::visit([](const auto& one) { return described(one); }, rule));
  for (const NamedTensor& one : parameters) {
    text += fmt::format("\"{}\" ({}{})\n", one.name, to_string(one.tensor.dtype),
                        to_string(one.tensor.shape));
  }
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos;) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

/// Throws Mismatch, on all ranks alike, for the first line that differs from the first rank's.
void refuse_differences(const Context& context, const std::vector<std::string>& facts) {
  const std::vector<std::string> first = lines_of(facts[0]);
  for (std::size_t place = 1; place < facts.size(); ++place) {
    const std::vector<std::string> other = lines_of(facts[place]);
    const std::size_t most = std::min(first.size(), other.size());
    std::size_t line = 0;
    while (line < most && first[line] == other[line]) ++line;
    if (line == most && first.size() == other.size()) continue;
    const auto shown = [line](const std::vector<std::string>& lines) {
      return line < lines.size() ? lines[line]
                                 : fmt::format("no more than {} parameters", lines.size() - 2);
    };
    throw Mismatch(fmt::format("the sharded optimizers differ: rank {} has {}, rank {} has {}",
                               context.ranks[0], shown(first), context.ranks[place], shown(other)));
  }
}

/// The first rank's problem; empty: no rank has one.
std::string first_of(const Context& context, const std::vector<std::string>& problems) {
  for (std::size_t place = 0; place < problems.size(); ++place) {
    if (problems[place].empty()) continue;
    return fmt::format("on rank {} {}", context.ranks[place], problems[place]);
  }
  return {};
}

/// Compares what ranks were given. Throws on all of them alike.
void agree(const Context& context, const std::string& problem, const std::string& facts) {
  const std::string digest = fmt::format("{:016x}", hash64(as_bytes(facts)));
  const auto digests = context.of_all("sharded optimizer", problem.empty() ? digest : "?");
  const auto other = [&](const std::string& one) { return one != digests[0]; };
  const bool odd = std::any_of(digests.begin(), digests.end(), other);
  if (!odd && digests[0] != "?") return;
  const auto problems = context.of_all("sharded optimizer: problems", problem);
  for (std::size_t place = 0; place < problems.size(); ++place) {
    if (problems[place].empty()) continue;
    throw InvalidArgument(
        fmt::format("sharded optimizer, on rank {}: {}", context.ranks[place], problems[place]));
  }
  refuse_differences(context, context.of_all("sharded optimizer: facts", facts));
}

/// Throws Mismatch, on all ranks alike, where a rank's state does not fit or is not that of others.
void agree_on_state(const Context& context, const ShardedState& state, const ShardedState& mine) {
  std::string problem = sharded::problem_of(state, mine);
  if (problem.empty()) problem = outside("learning_rate", state.learning_rate, HUGE_VAL);
  if (problem.empty() && state.steps < 0) {
    problem = fmt::format("steps={}; allowed: numbers from 0", state.steps);
  }
  const std::string facts =
      fmt::format("{} steps and learning_rate={}", state.steps, state.learning_rate);
  const std::string all = "loading the state of a sharded optimizer: ";
  const auto problems = context.of_all("the state that the sharded optimizer loads", problem);
  if (const std::string first = first_of(context, problems); !first.empty()) {
    throw Mismatch(all + first);
  }
  const auto said = context.of_all("the step that the sharded optimizer loads", facts);
  for (std::size_t place = 1; place < said.size(); ++place) {
    if (said[place] == said[0]) continue;
    throw Mismatch(fmt::format("{}rank {} has that of {}, rank {} of {}", all, context.ranks[0],
                               said[0], context.ranks[place], said[place]));
  }
}

/// A sum that is not finite has no error.
DoubleDouble sum_of(DoubleDouble a, DoubleDouble b) {
  const double plain = a.hi + b.hi;
  return std::isfinite(plain) ? a + b : DoubleDouble{plain, 0};
}

/// The bits as text that no locale changes.
std::string bits_of(DoubleDouble value) {
  return fmt::format("{:x} {:x}", std::bit_cast<std::uint64_t>(value.hi),
                     std::bit_cast<std::uint64_t>(value.lo));
}

DoubleDouble from_bits(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;
  const auto read = std::from_chars(text.data(), end, hi, 16);
  std::from_chars(read.ptr + 1, end, lo, 16);
  return {std::bit_cast<double>(hi), std::bit_cast<double>(lo)};
}

}  // namespace

class ShardedOptimizer::Impl {
 public:
  Impl(Job& job, const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
       const ShardOptions& options, CallSite site)
      : context_(make_context(job, options, site)), overlap_(options.overlap), rule_(rule) {
    agree(context_, problem_of_all(parameters, rule, options), facts_of(parameters, rule, options));
    allocate(parameters, options);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Array memory = places_[i].bucket->values(places_[i].slot);
      const auto* const from = static_cast<const std::byte*>(parameters[i].tensor.in);
      std::copy_n(from, static_cast<std::size_t>(memory.count()) * size_of(memory.dtype),
                  memory.data.get());
    }
    for (Bucket& bucket : buckets_) bucket.broadcast(context_);
  }

  [[nodiscard]] std::size_t index_of(std::string_view name) const {
    const auto found = indices_.find(name);
    if (found != indices_.end()) return found->second;
    throw InvalidArgument(fmt::format("there is no parameter \"{}\"; there are {}", name, list()));
  }

  Array values(std::size_t parameter) {
    const Place place = at(parameter);
    throw_if_error(place.bucket->wait_for_values(context_));
    return place.bucket->values(place.slot);
  }

  Array gradient(std::size_t parameter) {
    const Place place = unready(parameter);
    return place.bucket->gradient(context_, spaces_, place.slot);
  }

  void ready(std::size_t parameter) {
    const Place place = unready(parameter);
    refuse_other_epoch();
    place.bucket->mark_ready(context_, spaces_, place.slot);
  }

  void step() {
    synchronize();
    wait();
    const sharded::Update update{rule_, steps_ + 1, scale_};
    ++steps_;
    for (Bucket& bucket : buckets_) {
      bucket.update(update);
      bucket.forget_gradients();
      bucket.gather(context_);
    }
    scale_ = 1.0F;
    if (!overlap_) wait();
  }

  void skip_step() {
    synchronize();
    forget_gradients();
  }

  void wait() {
    for (Bucket& bucket : buckets_) throw_if_error(bucket.wait_for_values(context_));
  }

  double clip_norm(double most) {
    if (!(most > 0.0)) {
      throw InvalidArgument(fmt::format("clip_norm({}); allowed: numbers above 0", most));
    }
    synchronize();
    const double norm = static_cast<double>(scale_) * norm_of_averages();
    const double factor = most / (norm + 1e-6);
    if (!(factor >= 1.0)) scale_ *= static_cast<float>(factor);
    return norm;
  }

  [[nodiscard]] double& rate() {
    return std::visit([](auto& rule) -> double& { return rule.learning_rate; }, rule_);
  }
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

  [[nodiscard]] ShardedState save_shard() {
    take_written_values();
    ShardedState state = head();
    state.rank = static_cast<int>(context_.place);
    state.ranks = static_cast<int>(context_.ranks.size());
    for (const Bucket& bucket : buckets_) sharded::add_own(bucket, state.tensors);
    return state;
  }

  [[nodiscard]] ShardedState save() {
    refuse_other_epoch();
    take_written_values();
    ShardedState state = head();
    for (const Bucket& bucket : buckets_) sharded::add_whole(bucket, context_, state.tensors);
    return state;
  }

  void load(const ShardedState& state) {
    refuse_other_epoch();
    synchronize();
    wait();
    agree_on_state(context_, state, save_shard());
    forget_gradients();
    rate() = state.learning_rate;
    steps_ = state.steps;
    for (Bucket& bucket : buckets_) {
      sharded::take(state, bucket);
      bucket.gather(context_);
    }
    wait();
  }

  [[nodiscard]] ShardedMemory memory_bytes() const noexcept {
    ShardedMemory memory{.gradients = spaces_.bytes()};
    for (const Bucket& bucket : buckets_) {
      memory.parameters += bucket.bytes();
      memory.gradients += bucket.gradient_bytes(spaces_);
      memory.shard += bucket.shard_bytes();
      memory.state += bucket.state_bytes();
    }
    return memory;
  }

 private:
  struct Place {
    Bucket* bucket = nullptr;
    std::size_t slot = 0;
  };

  static Context make_context(Job& job, const ShardOptions& options, CallSite site) {
    Context context;
    context.job = &job.impl();
    context.runtime = context.job->runtime;
    context.set = context.job->id_of(options.set);
    context.ranks = value_or_throw(context.runtime->process_sets().ranks(context.set));
    const auto mine = std::find(context.ranks.begin(), context.ranks.end(), job.rank());
    if (mine == context.ranks.end()) {
      throw InvalidArgument(
          fmt::format("sharded optimizer: rank {} is not in the process set of {}", job.rank(),
                      list_ranks(context.ranks)));
    }
    context.place = static_cast<std::size_t>(mine - context.ranks.begin());
    context.op = options.op;
    context.site = fmt::format("{}:{}", site.file, site.line);
    const int number = ++context.job->sharded_optimizers[context.set];
    if (number > 1) context.suffix = fmt::format(", optimizer {}", number);
    return context;
  }

  /// Throws on all ranks alike where one has no memory.
  void allocate(const std::vector<NamedTensor>& parameters, const ShardOptions& options) {
    std::string problem;
    try {
      make_buckets(parameters, options.bucket_bytes);
    } catch (const std::exception& error) {
      problem = fmt::format("cannot make its buckets: {}", error.what());
    }
    const auto problems = context_.of_all("sharded optimizer: memory", problem);
    if (const std::string first = first_of(context_, problems); !first.empty()) {
      throw ResourceExhausted("sharded optimizer: " + first);
    }
    std::size_t largest = 0;
    for (const Bucket& bucket : buckets_) largest = std::max(largest, bucket.bytes());
    spaces_ = Spaces(options.shard == Shard::kGradients ? largest : 0);
  }

  void make_buckets(const std::vector<NamedTensor>& parameters, std::size_t most) {
    std::vector<std::vector<Slot>> runs;
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : parameters) {
      const auto count = static_cast<std::size_t>(element_count(tensor.shape));
      const std::size_t size = count * size_of(tensor.dtype);
      if (runs.empty() || runs.back().front().dtype != tensor.dtype || bytes + size > most) {
        runs.emplace_back();
        bytes = 0;
      }
      bytes += size;
      runs.back().push_back({name, tensor.dtype, tensor.shape, 0, count});
    }
    buckets_.reserve(runs.size());  // places_ points into it
    for (std::vector<Slot>& run : runs) {
      buckets_.emplace_back(context_, std::move(run), buckets_.size(), rule_);
      for (std::size_t slot = 0; slot < buckets_.back().slots().size(); ++slot) {
        indices_.emplace(buckets_.back().slots()[slot].name, places_.size());
        places_.push_back({&buckets_.back(), slot});
      }
    }
  }

  [[nodiscard]] Place at(std::size_t parameter) const {
    if (parameter < places_.size()) return places_[parameter];
    throw InvalidArgument(fmt::format("there is no parameter {}; there are {}", parameter, list()));
  }

  [[nodiscard]] Place unready(std::size_t parameter) const {
    const Place place = at(parameter);
    if (!place.bucket->is_ready(place.slot)) return place;
    throw InvalidArgument(fmt::format(
        "the gradient of \"{}\" is complete in this step already; step() or skip_step() comes "
        "before the next one",
        place.bucket->slots()[place.slot].name));
  }

  [[nodiscard]] std::string list() const {
    std::vector<std::string> names;
    for (const Place& place : places_) {
      if (names.size() == kListed) break;
      names.push_back(fmt::format("\"{}\"", place.bucket->slots()[place.slot].name));
    }
    return fmt::format("{}: {}{}", places_.size(), join_text(names, ", "),
                       places_.size() > kListed ? ", ..." : "");
  }

  /// In an elastic job the shards of ranks that are gone are lost.
  void refuse_other_epoch() const {
    if (context_.job->runtime == context_.runtime) return;
    throw InvalidArgument(fmt::format(
        "the job has other ranks than the {} that share this sharded optimizer; make a new one, "
        "and load() a state that was saved",
        context_.ranks.size()));
  }

  /// Sends what is left, and waits for all averages. Throws once nothing is under way any more.
  void synchronize() {
    refuse_other_epoch();
    for (Bucket& bucket : buckets_) bucket.send(context_, spaces_);
    Status first;
    for (const Bucket& bucket : buckets_) {
      const Status status = bucket.wait_for_gradients(context_);
      if (status.code() == Code::kInterrupted) throw_if_error(status);
      if (first.ok()) first = status;
    }
    if (!first.ok()) forget_gradients();
    throw_if_error(first);
  }

  void take_written_values() {
    for (Bucket& bucket : buckets_) bucket.take_written_values();
  }

  void forget_gradients() {
    for (Bucket& bucket : buckets_) bucket.forget_gradients();
    scale_ = 1.0F;
  }

  /// Adds with about 100 bits: any number of ranks gets the same bits.
  double norm_of_averages() const {
    DoubleDouble own;
    for (const Bucket& bucket : buckets_) own = sum_of(own, bucket.squares());
    DoubleDouble total;
    for (const std::string& text : context_.of_all("the norm of sharded gradients", bits_of(own))) {
      total = sum_of(total, from_bits(text));
    }
    return std::sqrt(total.hi);
  }

  [[nodiscard]] ShardedState head() const {
    ShardedState state;
    std::visit(
        [&](const auto& rule) {
          state.rule = sharded::name_of(rule);
          state.learning_rate = rule.learning_rate;
        },
        rule_);
    state.steps = steps_;
    return state;
  }

  const Context context_;
  const bool overlap_;
  UpdateRule rule_;
  std::int64_t steps_ = 0;
  float scale_ = 1.0F;  ///< Multiplies the gradients of this step.
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  ///< By parameter.
  std::map<std::string, std::size_t, std::less<>> indices_;
  Spaces spaces_{0};
};

ShardedOptimizer::ShardedOptimizer(Job& job, const std::vector<NamedTensor>& parameters,
                                   const UpdateRule& rule, const ShardOptions& options,
                                   CallSite site)
    : impl_(std::make_unique<Impl>(job, parameters, rule, options, site)) {}
ShardedOptimizer::ShardedOptimizer(ShardedOptimizer&&) noexcept = default;
ShardedOptimizer::~ShardedOptimizer() = default;

std::size_t ShardedOptimizer::index_of(std::string_view name) const {
  return impl_->index_of(name);
}
Array ShardedOptimizer::values(std::size_t parameter) { return impl_->values(parameter); }
Array ShardedOptimizer::gradient(std::size_t parameter) { return impl_->gradient(parameter); }
void ShardedOptimizer::ready(std::size_t parameter) { impl_->ready(parameter); }
void ShardedOptimizer::step() { impl_->step(); }
void ShardedOptimizer::skip_step() { impl_->skip_step(); }
void ShardedOptimizer::wait() { impl_->wait(); }
double ShardedOptimizer::clip_norm(double most) { return impl_->clip_norm(most); }
double ShardedOptimizer::learning_rate() const noexcept { return impl_->rate(); }
void ShardedOptimizer::set_learning_rate(double rate) {
  if (std::string text = outside("learning_rate", rate, HUGE_VAL); !text.empty()) {
    throw InvalidArgument(text);
  }
  impl_->rate() = rate;
}
std::int64_t ShardedOptimizer::steps() const noexcept { return impl_->steps(); }
ShardedState ShardedOptimizer::save() { return impl_->save(); }
ShardedState ShardedOptimizer::save_shard() const { return impl_->save_shard(); }
void ShardedOptimizer::load(const ShardedState& state) { impl_->load(state); }
ShardedMemory ShardedOptimizer::memory_bytes() const noexcept { return impl_->memory_bytes(); }

}  // namespace ronde
