// Which host this process runs on.
#pragma once

#include <string>

namespace ronde::net {

/// Equal for two processes exactly where they can share memory and abstract Unix sockets: boot id,
/// namespaces and user.
std::string host_identity();

}  // namespace ronde::net
