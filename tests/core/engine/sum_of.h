// The operation that most tests submit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/queues/operation.h"

namespace ronde::test {

/// An allreduce that sums `values` in place.
inline Submission sum_of(const std::string& name, std::vector<float>& values) {
  Submission submission;
  submission.request.name = name;
  submission.request.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
  submission.inputs = {values.data()};
  submission.outputs = {values.data()};
  return submission;
}

}  // namespace ronde::test
