// Addresses and ports of this host, for ranks to meet.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace ronde {

/// This host's name for people.
std::string own_host_name();

/// True where `name` is localhost, this host's name, or resolves to one of its addresses.
bool is_this_host(const std::string& name);

/// The numeric address of an interface ("eth0"), or `interface` itself where it is an address of
/// this host. Errors: kInvalidArgument naming the interfaces that there are.
Result<std::string> interface_address(const std::string& interface);

/// "lo (127.0.0.1), eth0 (10.0.0.5), ...": every interface that has an address, for people.
std::string list_interfaces();

/// The address of this host from which packets towards `name` leave; sends nothing.
Result<std::string> address_towards(const std::string& name);

/// A TCP port on `address` that nobody listens on now, below the range from which the kernel gives
/// out ports by itself. Errors: kResourceExhausted.
Result<int> free_port(const std::string& address);

/// "1.2.3.4:5" or "[::1]:5".
std::string join_host_port(const std::string& address, int port);

}  // namespace ronde
