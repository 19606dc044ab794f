// Gloo's TCP transport and its collectives, over Debian's libgloo.
#pragma once

#include <memory>

#include "core/ports/backend.h"
#include "core/ports/backend_module.h"

namespace ronde {

/// A backend called "gloo". Groups inside one host use the loopback interface; others the one that
/// `options` names, or this host's first that is not loopback. Gloo's sockets accept
/// unauthenticated peers, so `auto` must never select it.
std::unique_ptr<Backend> create_gloo_backend(const ModuleOptions& options);

}  // namespace ronde
