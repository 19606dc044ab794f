#include "backends/gloo/device.h"

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>

#include <exception>

#include "backends/gloo/sigpipe.h"
#include "core/base/os/interfaces.h"

namespace ronde::gloo_backend {
namespace {

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

/// Whether a host has an address. Gloo goes on with none, and crashes, where the resolver fails in
/// other ways than for good.
Status check_host(const std::string& hostname) {
  if (hostname.empty()) return {};
  const auto found = resolve_host(hostname);
  if (found.ok()) return {};
  return {Code::kUnavailable,
          fmt::format("Gloo cannot open its device: '{}' is neither an interface nor a host: {}",
                      hostname, found.status().message())};
}

}  // namespace

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

}  // namespace ronde::gloo_backend
