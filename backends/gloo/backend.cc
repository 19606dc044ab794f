#include <array>
#include <optional>
#include <utility>

#include "backends/gloo/collectives.h"
#include "backends/gloo/device.h"
#include "backends/gloo/factory.h"
#include "backends/gloo/mesh.h"
#include "backends/gloo/transport.h"
#include "core/base/mutex.h"

namespace ronde {
namespace {

using gloo_backend::GlooCollectives;
using gloo_backend::GlooTransport;
using gloo_backend::Mesh;

class GlooGroup final : public Communicator {
 public:
  GlooGroup(const std::shared_ptr<Mesh>& mesh, std::shared_ptr<AbortToken> abort,
            std::shared_ptr<const ReduceKernels> kernels)
      : Communicator({.name = "gloo",
                      .supports = GlooCollectives::supported(kernels != nullptr),
                      .polls = false}),  // Gloo's waits cannot be cut into slices
        mesh_(mesh),
        transport_(mesh, std::move(abort)),
        collectives_(mesh, std::move(kernels)) {}

  Status run(const Work& work, DeviceStream, const AbortToken& abort) override {
    return mesh_->call(abort, [&] { collectives_.run(work); });
  }
  Transport* transport() noexcept override { return &transport_; }

 private:
  const std::shared_ptr<Mesh> mesh_;
  GlooTransport transport_;
  GlooCollectives collectives_;
};

class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(const ModuleOptions& options) : options_(options) {}

  std::string_view name() const noexcept override { return "gloo"; }

  Status viable(const GroupSpec& group) override { return device_for(group).status(); }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    RONDE_ASSIGN_OR_RETURN(const auto mesh, Mesh::connect(group, exchange, device_for(group)));
    return std::unique_ptr<Communicator>(
        std::make_unique<GlooGroup>(mesh, group.abort, options_.kernels));
  }

 private:
  using Device = Result<std::shared_ptr<gloo::transport::Device>>;

  /// One device, and so one I/O thread, for all groups of a kind; opened when first needed.
  Device device_for(const GroupSpec& group) RONDE_EXCLUDES(mutex_) {
    const bool one_host = group.on_one_host();
    const MutexLock lock(mutex_);
    std::optional<Device>& device = devices_[one_host ? 0 : 1];
    if (!device) device.emplace(gloo_backend::open_device(one_host, options_.network_interface));
    return *device;
  }

  const ModuleOptions options_;
  Mutex mutex_;
  std::array<std::optional<Device>, 2> devices_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Backend> create_gloo_backend(const ModuleOptions& options) {
  return std::make_unique<GlooBackend>(options);
}

}  // namespace ronde
