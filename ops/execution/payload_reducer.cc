#include "ops/execution/payload_reducer.h"

#include <utility>

#include "ops/execution/output_planner.h"

namespace ronde {
namespace {

class KernelReducer final : public PayloadReducer {
 public:
  explicit KernelReducer(std::shared_ptr<const ReduceKernels> kernels)
      : kernels_(std::move(kernels)) {}

  void reduce(const ReductionRequest& request, std::span<const void* const> inputs, void* out,
              std::size_t count) const noexcept override {
    kernels_->reduce(reduction_for(request, static_cast<int>(inputs.size())), inputs, out, count);
  }

 private:
  const std::shared_ptr<const ReduceKernels> kernels_;
};

}  // namespace

std::unique_ptr<PayloadReducer> create_payload_reducer(
    std::shared_ptr<const ReduceKernels> kernels) {
  return std::make_unique<KernelReducer>(std::move(kernels));
}

}  // namespace ronde
