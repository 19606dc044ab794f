// Optimizers of which each rank keeps a part: 1/N of the state, and of the work. See
// examples/08_sharded.cc and docs/sharded.md.
//
//   ronde::ShardedOptimizer optimizer(job, {{"weight", ronde::tensor(weight)}}, ronde::AdamW{});
//   for (int step = 0; step < 1000; ++step) {
//     compute(optimizer.values("weight").as<float>(), optimizer.gradient("weight").as<float>());
//     optimizer.ready("weight");  // its gradient leaves while others are computed
//     optimizer.step();
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "ronde/ronde.h"
#include "ronde/tensor.h"

namespace ronde {

/// Stochastic gradient descent, by the formula of torch.optim.SGD.
struct Sgd {
  double learning_rate = 0.01;
  double momentum = 0.0;
  bool nesterov = false;  ///< Needs momentum.
  double weight_decay = 0.0;
};

/// Adam, by the formula of torch.optim.Adam: weight decay is a part of the gradient.
struct Adam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

/// AdamW, by the formula of torch.optim.AdamW: weight decay shrinks the parameters.
struct AdamW {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

/// How parameters are updated.
using UpdateRule = std::variant<Sgd, Adam, AdamW>;

/// The memory that ranks share out among each other.
enum class Shard : std::uint8_t {
  kOptimizer,  ///< The state: each rank has memory for all gradients.
  kGradients,  ///< Gradients, too: they have a few buckets, which are used again.
};

struct ShardOptions {
  Shard shard = Shard::kOptimizer;
  ReduceOp op = ReduceOp::kAverage;  ///< Or kSum.
  /// Parameters that follow each other travel together, up to so many bytes.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// step() does not wait for the parameters of other ranks; values() waits for those of its
  /// bucket. Spans from before the step need wait().
  bool overlap = false;
  ProcessSet set = {};  ///< The ranks that train together.
};

/// The bytes that a rank holds.
struct ShardedMemory {
  std::size_t parameters = 0;
  std::size_t gradients = 0;  ///< Whole buckets, that are sent.
  std::size_t shard = 0;      ///< This rank's averages, where they have memory of their own.
  std::size_t state = 0;      ///< With the float32 copies of 16-bit parameters.
};

/// A part of the state of one parameter: elements from `begin` on, in the order of memory.
struct StateTensor {
  std::string parameter = {};
  std::string kind = {};  ///< "momentum", "mean" or "variance"; "values" of 16-bit parameters.
  Shape shape = {};       ///< The whole parameter's.
  std::int64_t begin = 0;
  std::vector<float> values = {};
};

/// One rank's part of an optimizer's state. The whole is that of rank 0 of 1.
struct ShardedState {
  std::string rule = {};  ///< "sgd", "adam" or "adamw".
  double learning_rate = 0.0;
  std::int64_t steps = 0;
  int rank = 0;  ///< Its place among `ranks`.
  int ranks = 1;
  std::vector<StateTensor> tensors = {};
};

/// The whole state, from those that all ranks got from save_shard(), in any order. Any process may
/// call it. Throws InvalidArgument where a shard is missing, given twice, or of another optimizer.
[[nodiscard]] RONDE_API ShardedState merge_sharded_states(std::span<const ShardedState> shards);

/// Parameters in memory that the ranks of a host share, their gradients, and this rank's part of
/// the optimizer. Each step averages gradients, updates 1/N of the parameters on each rank and
/// gives all of them to all. In deterministic mode all bits are those of one rank that does it all.
/// Parameters are named by their place in the list, or by name. Unknown ones throw InvalidArgument.
/// Threads: one at a time.
class RONDE_API ShardedOptimizer {
 public:
  /// Copies the parameters' values, those of the set's first rank. Collective over the set. `job`
  /// outlives the optimizer. Errors come on all ranks: InvalidArgument for names that are not
  /// unique, dtypes other than float32, float16 and bfloat16, and options that are not allowed;
  /// Mismatch where parameters or options differ between ranks; ResourceExhausted where one has no
  /// memory.
  ShardedOptimizer(Job& job, const std::vector<NamedTensor>& parameters, const UpdateRule& rule,
                   const ShardOptions& options = {}, CallSite site = CallSite::here());
  ShardedOptimizer(ShardedOptimizer&&) noexcept;
  ~ShardedOptimizer();

  /// The place of a parameter in the list.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

  /// A parameter's values, once they are complete. The memory stays the same; it is written by
  /// step() only, and by the program.
  [[nodiscard]] Array values(std::size_t parameter);
  [[nodiscard]] Array values(std::string_view name) { return values(index_of(name)); }
  /// The memory to add a parameter's gradient to. Zeros when it is first asked for in a step.
  /// Several backward passes accumulate in it. Valid until ready(); throws InvalidArgument after.
  [[nodiscard]] Array gradient(std::size_t parameter);
  [[nodiscard]] Array gradient(std::string_view name) { return gradient(index_of(name)); }
  /// Says that the gradient is complete. Ranks may say so in any order. Blocks: a moment at most.
  /// Throws InvalidArgument where it was complete already.
  void ready(std::size_t parameter);
  void ready(std::string_view name) { ready(index_of(name)); }

  /// Updates the parameters. Collective. Gradients that were not ready are taken as they are; those
  /// that were not asked for are zeros. Throws what reductions failed with, on all ranks, and then
  /// leaves parameters and state as they are; the gradients are gone.
  void step();
  /// Ends the step without an update: the gradients are gone. Collective.
  void skip_step();
  /// Waits until all parameters are complete. Only needed with ShardOptions::overlap.
  void wait();
  /// Scales the averaged gradients so that their norm is at most `most`, by the formula of torch's
  /// clip_grad_norm_(). Returns the norm before, the same on all ranks. Collective: it waits for
  /// the gradients. Throws InvalidArgument unless `most` is above 0.
  double clip_norm(double most);

  [[nodiscard]] double learning_rate() const noexcept;
  /// Sets it for the steps from now on; the same on all ranks. Throws InvalidArgument below 0.
  void set_learning_rate(double rate);
  /// Updates so far.
  [[nodiscard]] std::int64_t steps() const noexcept;

  /// The whole state. Collective.
  [[nodiscard]] ShardedState save();
  /// This rank's part of the state.
  [[nodiscard]] ShardedState save_shard() const;
  /// Goes on from a whole state, saved by any number of ranks, or from this rank's shard. The
  /// state of 16-bit parameters has their values. Collective. Throws Mismatch on all ranks where a
  /// rank's state does not fit, or has another step or learning rate than others'.
  void load(const ShardedState& state);

  /// The memory of this rank.
  [[nodiscard]] ShardedMemory memory_bytes() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ronde
