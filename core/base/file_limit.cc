#include "core/base/file_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

namespace ronde {

Status check_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (bytes <= limit.rlim_cur) return {};
  return {Code::kUnavailable,
          fmt::format("shared memory: {} bytes are more than a file may have here ({}, ulimit -f)",
                      bytes, limit.rlim_cur)};
}

}  // namespace ronde
