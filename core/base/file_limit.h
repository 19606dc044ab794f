// The limit of the sizes of files (ulimit -f), which memory files count against.
#pragma once

#include <cstddef>

#include "core/base/status.h"

namespace ronde {

/// Ok where this process may make a file of `bytes`: beyond the limit the kernel would end it by a
/// signal (SIGXFSZ). Errors: kUnavailable, naming the limit.
Status check_file_limit(std::size_t bytes);

}  // namespace ronde
