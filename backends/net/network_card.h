// The network card that carries data between hosts, as the kernel describes it.
#pragma once

#include <string>

#include "backends/net/factory.h"
#include "core/base/os/endpoint.h"

namespace ronde::net {

/// The card that has this address; without a name where none has.
/// `folder`: /sys/class/net but for tests.
NetworkCard card_of(const Endpoint& local, const std::string& folder = "/sys/class/net");

}  // namespace ronde::net
