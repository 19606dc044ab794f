#include "bindings/runtime/named_choices.h"

#include <fmt/format.h>

#include "backends/builtin.h"
#include "bindings/runtime/submission_preparer.h"
#include "ops/selection/selector.h"

namespace ronde {

Status check_named_choices(const Config& config) {
  RONDE_RETURN_IF_ERROR(check_backend(config.backend));
  RONDE_RETURN_IF_ERROR(check_algorithm(config.algorithm)
                            .with_context(fmt::format("RONDE_ALGORITHM=\"{}\"", config.algorithm)));
  return job_compression(config.compression)
      .status()
      .with_context(fmt::format("RONDE_COMPRESSION=\"{}\"", config.compression));
}

}  // namespace ronde
