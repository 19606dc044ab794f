// Parameters of a sharded optimizer in flat memory, of which each rank updates an equal chunk.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/cpp/internal.h"
#include "bindings/runtime/operations.h"
#include "core/base/status.h"
#include "ops/kernels/double_double.h"
#include "ronde/sharded.h"

namespace ronde::sharded {

/// A parameter's place in the flat memory of its bucket, in elements.
struct Slot {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::size_t begin = 0;
  std::size_t count = 0;

  [[nodiscard]] std::size_t end() const noexcept { return begin + count; }
};

/// The elements from begin to end.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t count() const noexcept { return end - begin; }
};

/// All buckets of an optimizer share it.
struct Context {
  Job::Impl* job = nullptr;
  std::shared_ptr<Runtime> runtime;
  SetId set = kGlobalSet;
  std::vector<int> ranks;  ///< The set's.
  std::size_t place = 0;   ///< This rank's among them.
  ReduceOp op = ReduceOp::kAverage;
  std::string site;
  std::string suffix;  ///< Of all operations' names: optimizers of a set may have equal parameters.

  /// Starts an operation, which keeps its memory alive. Blocks: never.
  OperationPtr start(Submission submission, std::shared_ptr<const void> memory) const;
  /// Blocks until it is done. Errors: the operation's, or those of waiting.
  [[nodiscard]] Status wait(const OperationPtr& operation) const;
  /// Zeros that the ranks of this host share.
  [[nodiscard]] Array allocate(DType dtype, std::size_t count) const;
  /// The texts of all ranks, by their places. Collective.
  [[nodiscard]] std::vector<std::string> of_all(const std::string& name,
                                                const std::string& text) const;
};

/// Memory that gradients are sent from: of each bucket its own, or some that buckets share.
class Spaces {
 public:
  /// bytes: of the largest bucket; 0: nothing is shared.
  explicit Spaces(std::size_t bytes) : bytes_(bytes) {}

  [[nodiscard]] bool shared() const noexcept { return bytes_ > 0; }
  /// Room for a bucket. If all spaces are in use it waits a moment, then makes one more: ranks that
  /// use different parameters could wait for each other else.
  Array take(const Context& context);
  /// The space is in use until the operation ends.
  void give_back(Array space, OperationPtr until);
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ * made_; }

 private:
  struct Used {
    Array space;
    OperationPtr until;
  };

  std::size_t bytes_;
  std::size_t made_ = 0;
  std::vector<Used> returned_;
};

/// The state that a rule keeps for each element.
[[nodiscard]] std::span<const std::string_view> kinds_of(const UpdateRule& rule) noexcept;

/// One step of an optimizer.
struct Update {
  const UpdateRule& rule;
  std::int64_t step = 1;  ///< This one, from 1.
  float gradient_scale = 1.0F;
};

/// Parameters of one dtype. Gradients are reduced by a reduce-scatter; parameters return by an
/// allgather.
class Bucket {
 public:
  /// slots: without their places. number: among the buckets. Allocates.
  Bucket(const Context& context, std::vector<Slot> slots, std::size_t number,
         const UpdateRule& rule);

  [[nodiscard]] const std::vector<Slot>& slots() const noexcept { return slots_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * size_of(dtype_); }
  /// The elements that this rank updates.
  [[nodiscard]] Range own() const noexcept { return {low_, low_ + chunk_}; }
  [[nodiscard]] std::size_t shard_bytes() const noexcept;
  [[nodiscard]] std::size_t state_bytes() const noexcept;
  /// This bucket's own memory for gradients.
  [[nodiscard]] std::size_t gradient_bytes(const Spaces& spaces) const noexcept;

  /// The memory of a slot's values.
  [[nodiscard]] Array values(std::size_t slot) const;
  /// The memory of a slot's gradient.
  [[nodiscard]] Array gradient(const Context& context, Spaces& spaces, std::size_t slot);
  /// True where a slot's gradient is complete.
  [[nodiscard]] bool is_ready(std::size_t slot) const { return ready_[slot]; }
  /// Marks a slot as complete; sends the bucket with its last one.
  void mark_ready(const Context& context, Spaces& spaces, std::size_t slot);
  /// Sends the gradients, if they were not yet.
  void send(const Context& context, Spaces& spaces);
  /// Waits for the averages. Errors: the reduction's.
  [[nodiscard]] Status wait_for_gradients(const Context& context) const;
  /// The sum of squares of this rank's averages.
  [[nodiscard]] DoubleDouble squares() const;
  /// Forgets the gradients: the next step begins.
  void forget_gradients();

  /// Updates this rank's chunk. No allgather is under way.
  void update(const Update& how);
  /// Starts to give all ranks the chunks.
  void gather(const Context& context);
  /// Gives all ranks the values of the set's first one. Blocks.
  void broadcast(const Context& context);
  /// Waits until the values are complete. Errors: the allgather's.
  [[nodiscard]] Status wait_for_values(const Context& context);

  /// This rank's state, by kind; see kinds(). As many elements as own() has.
  [[nodiscard]] std::vector<std::span<float>> state();
  [[nodiscard]] std::vector<std::span<const float>> state() const;
  [[nodiscard]] const std::vector<std::string_view>& kinds() const noexcept { return kinds_; }
  /// The state was written: 16-bit values follow.
  void take_state();
  /// 16-bit values may have been written: the state follows, where they are others. Every allgather
  /// leaves this rank's chunk alone.
  void take_written_values();

 private:
  [[nodiscard]] std::byte* at(const Array& memory, std::size_t element) const;
  [[nodiscard]] Submission submission(Collective kind, std::string_view what,
                                      std::size_t count) const;
  /// This rank's averages as float32. scratch: holds them where they are not.
  [[nodiscard]] std::span<const float> averages(std::vector<float>& scratch) const;
  void clear_unasked();

  DType dtype_;
  std::vector<Slot> slots_;
  std::string name_;
  int priority_;
  std::size_t count_ = 0;  ///< Elements with padding.
  std::size_t chunk_ = 0;
  std::size_t low_ = 0;  ///< This rank's chunk begins there.
  Array values_;
  Array space_;              ///< Has gradients, while they are made or sent.
  Array averages_;           ///< This rank's, where spaces are shared.
  std::vector<bool> asked_;  ///< By slot: its gradient has memory in this step.
  std::vector<bool> ready_;  ///< By slot.
  OperationPtr reduction_;
  OperationPtr returning_;
  std::vector<std::string_view> kinds_;
  std::vector<std::vector<float>> state_;  ///< By kind; values of 16-bit parameters are the last.
};

}  // namespace ronde::sharded
