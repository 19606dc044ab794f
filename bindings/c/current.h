// The job that C callers find as the current one.
#pragma once

#include <memory>

#include "bindings/runtime/runtime.h"

namespace ronde {

/// Makes `runtime` what ronde_api.current gives; null: there is none. The bindings that create
/// runtimes call it. Threads: any.
void set_current_runtime(std::shared_ptr<Runtime> runtime);
/// Returns the runtime of set_current_runtime(); null before. Threads: any.
std::shared_ptr<Runtime> current_runtime();

}  // namespace ronde
