#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>

#include <array>
#include <exception>
#include <optional>
#include <utility>

#include "backends/gloo/collectives.h"
#include "backends/gloo/factory.h"
#include "backends/gloo/mesh.h"
#include "backends/gloo/transport.h"
#include "core/base/mutex.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

using gloo_backend::GlooCollectives;
using gloo_backend::GlooTransport;
using gloo_backend::Mesh;
using gloo_backend::SigpipeBlock;

class GlooGroup final : public Communicator {
 public:
  GlooGroup(const std::shared_ptr<Mesh>& mesh, std::shared_ptr<AbortToken> abort,
            std::shared_ptr<const ReduceKernels> kernels)
      : Communicator({.name = "gloo",
                      .supports = GlooCollectives::supported(kernels != nullptr),
                      .plain = true,
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

/// Name of the first interface that is up, is not loopback and has an IPv4 address, or empty.
std::string first_interface() {
  for (const Interface& each : list_interfaces()) {
    if (each.up && !each.loopback && each.address.family() == AF_INET) return each.name;
  }
  return {};
}

gloo::transport::tcp::attr device_attributes(bool one_host, const std::string& network_interface) {
  gloo::transport::tcp::attr attributes;
  attributes.ai_family = AF_UNSPEC;
  const std::string wanted = network_interface.empty() ? first_interface() : network_interface;
  if (one_host) {
    attributes.hostname = "127.0.0.1";
  } else if (if_nametoindex(wanted.c_str()) != 0) {
    attributes.iface = wanted;
  } else {
    attributes.hostname = wanted;
  }
  return attributes;
}

/// Returns an error if the host has no address. Gloo itself ignores some of the resolver's errors
/// and then crashes.
Status check_host(const std::string& hostname) {
  if (hostname.empty()) return {};
  const auto found = resolve_host(hostname);
  if (found.ok()) return {};
  return {Code::kUnavailable,
          fmt::format("Gloo cannot open its device: '{}' is neither an interface nor a host: {}",
                      hostname, found.status().message())};
}

/// Opens Gloo's device: the interface that its sockets are bound to, and its I/O thread. It serves
/// groups inside this host, or else `network_interface`, an interface's name or an address. Empty
/// takes the first interface that is up and not loopback. Errors: kUnavailable with Gloo's message.
Result<std::shared_ptr<gloo::transport::Device>> open_device(bool one_host,
                                                             const std::string& network_interface) {
  const SigpipeBlock no_signal;  // the device's thread inherits it
  try {
    const auto attributes = device_attributes(one_host, network_interface);
    RONDE_RETURN_IF_ERROR(check_host(attributes.hostname));
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, fmt::format("Gloo cannot open its device: {}", error.what()));
  }
}

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
    if (!device) device.emplace(open_device(one_host, options_.network_interface));
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
