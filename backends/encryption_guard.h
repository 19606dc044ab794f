// Keeps backends whose connections between hosts are not Ronde's to RONDE_ENCRYPTION.
#pragma once

#include <memory>
#include <string>

#include "core/ports/backend.h"

namespace ronde {

/// Returns `backend` with a check of groups that span hosts, where its data goes unencrypted.
/// `mode` is Config::encryption: "required" refuses them (kUnsupported), "on" warns once.
std::unique_ptr<Backend> guard_encryption(std::unique_ptr<Backend> backend,
                                          const std::string& mode);

}  // namespace ronde
