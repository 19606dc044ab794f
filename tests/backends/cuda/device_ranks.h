// Ranks with tensors in device memory, for the conformance suite. The fake's device memory is host
// memory, so it is enough that a bundle names a device.
#pragma once

#include <memory>
#include <utility>

#include "backends/cuda/device.h"
#include "ops/execution/executor.h"
#include "tests/conformance/conformance.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {

/// Bundles of this number stay in host memory.
inline constexpr std::uint64_t kHostBundle = 77;

/// Says of every other bundle of tensors that it is on `device`; a barrier has none and stays on
/// the host. What it runs is done when execute() returns.
class OnDevice final : public Executor {
 public:
  OnDevice(std::unique_ptr<Executor> inner, int device)
      : inner_(std::move(inner)), device_(device) {}
  Status execute(const Bundle& bundle, const AbortToken& abort) override {
    Bundle moved = bundle;
    if (!bundle.tensors.empty() && bundle.id != kHostBundle)
      moved.device = {DeviceKind::kCuda, device_};
    return inner_->execute(moved, abort);
  }
  std::string last_path() const override { return inner_->last_path(); }
  CompressionFacts last_compression() const override { return inner_->last_compression(); }
  std::vector<std::string> explain_compression() const override {
    return inner_->explain_compression();
  }

 private:
  const std::unique_ptr<Executor> inner_;
  const int device_;
};

/// The ranks of `Base` with tensors in device memory; two share each device.
template <typename Base>
struct OnDevices : Base {
  using Base::Base;
  [[nodiscard]] virtual int device_of(int rank) const { return rank / 2 % 2; }
  /// The communicator of device work; null: staged.
  virtual Result<std::unique_ptr<Communicator>> open_plane(const GroupSpec&, Exchange&,
                                                           std::shared_ptr<DeviceOps>) const {
    return std::unique_ptr<Communicator>();
  }
  /// All that it runs over.
  virtual Result<DeviceParts> open_parts(const GroupSpec& group, Exchange& exchange,
                                         std::shared_ptr<DeviceOps> device) const {
    RONDE_ASSIGN_OR_RETURN(auto plane, open_plane(group, exchange, device));
    return DeviceParts{.device = std::move(device), .whole = std::move(plane)};
  }
  std::unique_ptr<Executor> make_executor(ExecutorOptions options, const GroupSpec& group,
                                          Exchange& exchange) const override {
    const int index = device_of(group.rank);
    options.open_device = [this, group, &exchange](int device) -> Result<DeviceParts> {
      return open_parts(group, exchange, std::make_shared<cuda::CudaDevice>(device));
    };
    auto inner = Base::make_executor(std::move(options), group, exchange);
    return std::make_unique<OnDevice>(std::move(inner), index);
  }
};

/// Staged work uses the local backend.
using DeviceFixture = OnDevices<LocalFixture>;

}  // namespace ronde::test
