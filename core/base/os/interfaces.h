// The network interfaces and the name of this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/os/endpoint.h"

namespace ronde {

/// One IP address of an interface.
struct Interface {
  std::string name;
  Endpoint address;  ///< Port 0.
  bool up = false;
  bool loopback = false;
};

/// Each IP address of each interface, in the kernel's order. Empty where the kernel tells none.
std::vector<Interface> list_interfaces();

/// The address of the interface `name` for traffic between hosts: IPv4 before IPv6, none that only
/// one link knows.
std::optional<Endpoint> interface_address(const std::string& name);

/// This host's name, for people.
std::string host_name();

}  // namespace ronde
