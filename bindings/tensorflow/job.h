// The process's job, as the kernels reach it: by the C API's table, given once by ronde.tensorflow.
#pragma once

#include <memory>

#include "ronde_c.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ronde::tensorflow {

struct ReleaseJob {
  void operator()(ronde_job* job) const;
};
using JobPtr = std::unique_ptr<ronde_job, ReleaseJob>;

/// The table; null until ronde_tensorflow_bind() has been called.
const ronde_api* api();
/// The job of this process; null before init() and after shutdown(). Threads: any.
JobPtr current_job();
/// What a kernel fails with where there is no job.
absl::Status not_initialized();
/// As TensorFlow has it; the text begins with what lets ronde.tensorflow raise Ronde's exception:
/// "[ronde.error CODE RANK PID HOST BYTES] ", BYTES being the length of the text that follows.
absl::Status to_status(const ronde_error& error);

}  // namespace ronde::tensorflow
