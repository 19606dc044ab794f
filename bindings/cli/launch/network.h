// Addresses and ports of this host for the rendezvous of the ranks.
#pragma once

#include <string>

#include "core/base/status.h"

namespace ronde {

/// Whether `name` is localhost, this host's name, or resolves to one of its addresses.
/// Blocks (name service).
bool is_this_host(const std::string& name);

/// The numeric address of an interface ("eth0"), or `interface` itself where it is an address of
/// this host. Errors: kInvalidArgument naming the interfaces that there are.
Result<std::string> chosen_address(const std::string& interface);

/// "lo (127.0.0.1), eth0 (10.0.0.5), ...": every interface that has an address, for people.
std::string describe_interfaces();

/// The address of this host from which packets towards `name` leave; sends nothing.
/// Errors: kUnavailable.
Result<std::string> address_towards(const std::string& name);

/// A TCP port on the numeric `address` that nobody listens on now. It lies below the range from
/// which the kernel chooses ports. Errors: kResourceExhausted.
Result<int> free_port(const std::string& address);

/// "1.2.3.4:5" or "[::1]:5".
std::string join_host_port(const std::string& address, int port);

}  // namespace ronde
