// The smallest thing a runtime can do.
#pragma once

#include <string>
#include <vector>

#include "bindings/runtime/runtime.h"

namespace ronde {

/// An allreduce that sums `values` in place.
inline Submission sum_of(const std::string& name, std::vector<float>& values) {
  Submission submission;
  submission.request.name = name;
  submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
  submission.inputs = {values.data()};
  submission.outputs = {values.data()};
  return submission;
}

/// Runs it.
inline Status sum(Runtime& runtime, SetId set, const std::string& name,
                  std::vector<float>& values) {
  const auto done = runtime.run(set, sum_of(name, values));
  return done.ok() ? (*done)->status() : done.status();
}

}  // namespace ronde
