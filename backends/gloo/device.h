// Gloo's device: the network interface that its sockets are bound to, and its I/O thread.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"

namespace gloo::transport {
class Device;
}

namespace ronde::gloo_backend {

/// Opens the device for groups inside this host, or for `network_interface` (an interface's name
/// or an address; empty takes the first interface that is up and not loopback).
/// Errors: kUnavailable with Gloo's words.
Result<std::shared_ptr<gloo::transport::Device>> open_device(bool one_host,
                                                             const std::string& network_interface);

}  // namespace ronde::gloo_backend
