// Copies the conformance suite's tensors from host memory to a device for an operation, and the
// results back. Bundles in device memory pass unchanged.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/ports/device_ops.h"
#include "ops/execution/executor.h"

namespace ronde::test {

/// Threads: one at a time.
class OnRealDevice final : public Executor {
 public:
  OnRealDevice(std::unique_ptr<Executor> inner, std::shared_ptr<DeviceOps> device, int ranks);
  Status execute(const Bundle& bundle, const AbortToken& abort) override;
  std::string last_path() const override { return inner_->last_path(); }
  CompressionFacts last_compression() const override { return inner_->last_compression(); }
  std::vector<std::string> explain_compression() const override {
    return inner_->explain_compression();
  }

 private:
  using Memory = std::shared_ptr<std::byte>;
  /// A result on the device and its place in host memory.
  struct Output {
    Memory there;
    void* here = nullptr;                       ///< Null: `allocate` says where.
    const OutputAllocator* allocate = nullptr;  ///< Of the tensor.
    std::size_t index = 0;
    Shape shape;
    std::size_t bytes = 0;
  };
  Result<Memory> room(std::size_t bytes);
  Result<Memory> move_in(const void* from, std::size_t bytes);
  Status move_tensor(BundleTensor& tensor, const Bundle& bundle);
  void move_allocator(BundleTensor& tensor, DType dtype);
  Status move_out(const Output& output);

  const std::unique_ptr<Executor> inner_;
  const std::shared_ptr<DeviceOps> device_;
  const int ranks_;
  const DeviceStream stream_;
  std::vector<Memory> memory_;              // of the current bundle
  std::deque<OutputAllocator> allocators_;  // likewise
  std::deque<Output> outputs_;              // likewise
};

}  // namespace ronde::test
