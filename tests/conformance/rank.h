// One rank of the conformance suite: its executor over the backend under test, and short ways to
// run one operation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ports/executor.h"
#include "ops/execution/executor.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/values.h"

namespace ronde::test {

/// True if the result goes to the input's memory.
enum class Place { kIn, kOut };

/// Threads: the rank's own.
class Rank {
 public:
  Rank(ConformanceFixture& fixture, Backend& backend, const GroupSpec& group, Exchange& exchange,
       bool finds_nonfinite = false);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] AbortToken& abort() const noexcept { return *abort_; }
  [[nodiscard]] Executor& executor() const noexcept { return *executor_; }

  /// Runs a bundle.
  Status run(const Bundle& bundle) const { return executor_->execute(bundle, *abort_); }

  /// Runs a bundle of one tensor of shape [count] and returns its output, as long as its input.
  /// `weight`: of a weighted bundle.
  Bytes run_one(Bundle bundle, const Bytes& in, Place place, std::size_t count,
                double weight = 1.0) const;

  /// Reports a failure of this rank unless `problem` is empty.
  void expect_no(const std::string& problem, const std::string& where) const;

  /// Reports a failure unless all ranks hold the same bits.
  void expect_same_bits(const Bytes& bytes, const std::string& where) const;

  /// All ranks' values, over the control channel.
  std::vector<std::string> share(const std::string& mine) const;

 private:
  const int rank_;
  const int size_;
  const bool same_bits_;
  Exchange& exchange_;
  std::shared_ptr<AbortToken> abort_;
  std::unique_ptr<Executor> executor_;
};

/// Runs `body` on every rank of groups of every size that the fixture offers.
void on_ranks(ConformanceFixture& fixture, const std::function<void(const Rank&)>& body);

/// Runs `body` on every rank of groups of these sizes.
void on_ranks(ConformanceFixture& fixture, const std::vector<int>& counts,
              const std::function<void(const Rank&)>& body);

/// Runs `body` on every rank of groups of at most five, whose executors find what is not finite.
void on_watching_ranks(ConformanceFixture& fixture, const std::function<void(const Rank&)>& body);

/// A bundle without tensors.
Bundle bundle_of(Collective kind, DType dtype, ReduceOp op = ReduceOp::kSum, int root = 0);

/// Values that are reduced in place. On a device: `ready` is waited for, `complete` is set; both
/// outlive the bundle.
BundleTensor in_place(std::vector<float>& values, const DeviceEventPtr& ready = nullptr,
                      DeviceEventPtr* complete = nullptr);

/// Outputs that an executor asks for.
class Outputs {
 public:
  explicit Outputs(DType dtype);
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// Makes `tensor` take its output from here, as number `index`.
  void serve(BundleTensor& tensor, std::size_t index);
  [[nodiscard]] const Bytes& bytes(std::size_t index) const { return made_.at(index).bytes; }
  [[nodiscard]] const Shape& shape(std::size_t index) const { return made_.at(index).shape; }
  /// True if output `index` was allocated.
  [[nodiscard]] bool asked(std::size_t index) const { return made_.at(index).asked; }

 private:
  struct Made {
    Bytes bytes;
    Shape shape;
    bool asked = false;
  };
  Result<void*> make(std::size_t index, const Shape& shape);

  const DType dtype_;
  std::vector<Made> made_;
  OutputAllocator allocate_;
};

}  // namespace ronde::test
