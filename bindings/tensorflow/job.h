// The process's job and the programs that TensorFlow has traced, as ronde.tensorflow gives them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
/// The error of a kernel without a job.
absl::Status not_initialized();
/// As TensorFlow has it; the text begins with what lets ronde.tensorflow raise Ronde's exception:
/// "[ronde.error CODE RANK PID HOST BYTES] ", BYTES being the length of the text that follows.
absl::Status to_status(const ronde_error& error);

/// The number of no program: in eager mode, where nothing is said.
constexpr std::int64_t kEagerProgram = -1;

/// Notes names that a graph may submit; of one that another process traced, all names may be. An
/// operation in eager mode is in none.
void note_graph(const std::vector<std::string>& names, std::int64_t program, std::int32_t set);
/// Not 0 if a graph of this process may submit an operation of this name. Threads: any.
std::int32_t may_submit(const char* name);

/// The collectives of program number `number` in a process set, in words; empty where nothing is
/// known of it, as of one that another process traced and saved. Threads: any.
std::string program_text(std::int64_t number, std::int32_t set);

}  // namespace ronde::tensorflow
