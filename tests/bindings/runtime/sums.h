// The smallest thing a runtime can do.
#pragma once

#include <string>
#include <vector>

#include "bindings/runtime/operations.h"
#include "bindings/runtime/runtime.h"
#include "tests/core/engine/sum_of.h"

namespace ronde {

using test::sum_of;

/// Runs it.
inline Status sum(Runtime& runtime, SetId set, const std::string& name,
                  std::vector<float>& values) {
  const auto done = runtime.operations().run(set, sum_of(name, values));
  return done.ok() ? (*done)->status() : done.status();
}

}  // namespace ronde
