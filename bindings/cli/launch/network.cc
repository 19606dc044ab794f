#include "bindings/cli/launch/network.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>

#include "core/base/os/file_descriptor.h"
#include "core/base/os/interfaces.h"

namespace ronde {
namespace {

bool is_own_address(const Endpoint& address) {
  const std::vector<Interface> all = list_interfaces();
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& each) { return each.address.same_host(address); });
}

/// Whether a listener could listen there now.
bool can_bind(const Endpoint& address) {
  const FileDescriptor fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.valid() && ::bind(fd.get(), address.raw(), address.length) == 0;
}

}  // namespace

std::string describe_interfaces() {
  std::string text;
  for (const Interface& each : list_interfaces()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name, each.address.host());
  }
  return text;
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == host_name()) return true;
  const auto found = resolve_host(name);
  return found.ok() && std::any_of(found->begin(), found->end(), is_own_address);
}

Result<std::string> chosen_address(const std::string& interface) {
  const auto number = numeric_host(interface);
  if (number.ok() && is_own_address(*number)) return interface;
  if (const auto found = interface_address(interface)) return found->host();
  return Status(Code::kInvalidArgument,
                fmt::format("there is no network interface or own address \"{}\" on {}; there are: "
                            "{}",
                            interface, host_name(), describe_interfaces()));
}

Result<std::string> address_towards(const std::string& name) {
  RONDE_ASSIGN_OR_RETURN(const std::vector<Endpoint> found, resolve_host(name));
  const Endpoint there = found.front().with_port(9);
  const FileDescriptor fd(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), there.raw(), there.length) != 0) {
    return errno_status(fmt::format("no route to host \"{}\"", name));
  }
  RONDE_ASSIGN_OR_RETURN(const Endpoint here, local_endpoint(fd.get()));
  return here.host();
}

Result<int> free_port(const std::string& address) {
  constexpr int kFirst = 20000;
  constexpr int kLast = 32000;
  std::random_device random;
  std::uniform_int_distribution<std::uint16_t> pick(kFirst, kLast);
  RONDE_ASSIGN_OR_RETURN(const Endpoint host, numeric_host(address));
  for (int attempt = 0; attempt < 200; ++attempt) {
    const std::uint16_t port = pick(random);
    if (can_bind(host.with_port(port))) return port;
  }
  return Status(Code::kResourceExhausted,
                fmt::format("found no free TCP port on {} from {} to {}", address, kFirst, kLast));
}

std::string join_host_port(const std::string& address, int port) {
  const bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace ronde
