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

/// Each IP address of each interface, in the kernel's order. Empty if the kernel reports none.
std::vector<Interface> list_interfaces();

/// The address of the interface `name` for traffic between hosts: IPv4 before IPv6, no link-local
/// one. `family`: AF_INET or AF_INET6 alone; AF_UNSPEC: either.
std::optional<Endpoint> interface_address(const std::string& name, int family = AF_UNSPEC);

/// The names and addresses that a setting lists: "eth0,eth1". Never empty; the first also serves
/// what uses one interface alone.
std::vector<std::string> listed_interfaces(const std::string& setting);

/// The interface that has this address, with any port.
std::optional<Interface> interface_with(const Endpoint& address);

/// The speed that an interface reports, in Mbit/s; 0 if it reports none, as virtual ones do.
/// `folder`: /sys/class/net but for tests.
int interface_megabits(const std::string& name, const std::string& folder = "/sys/class/net");

/// This host's name, for people.
std::string host_name();

}  // namespace ronde
