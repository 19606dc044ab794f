// Checks and completes what a binding submits, before the engine gets it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "bindings/runtime/groups/devices.h"
#include "bindings/runtime/groups/process_set_table.h"
#include "bindings/runtime/memory_check.h"
#include "core/base/status.h"
#include "core/engine/queues/operation.h"
#include "ops/compression/residuals.h"

namespace ronde {

/// The job's own compression: of large floating matrices in host memory that name none.
struct JobCompression {
  std::string spec;                  ///< In canonical form; empty: none.
  std::int64_t fewest_elements = 0;  ///< Smaller tensors stay dense.
};

/// Reads the job's setting. Errors: kInvalidArgument with what is allowed.
Result<JobCompression> job_compression(const std::string& setting);

/// Makes a submission ready for the engine. Threads: any.
class SubmissionPreparer {
 public:
  /// `rank`: of the job. All references outlive it.
  SubmissionPreparer(JobCompression compression, const ProcessSetTable& sets,
                     const ResidualStore& residuals, Devices& devices, int rank)
      : compression_(std::move(compression)),
        sets_(sets),
        residuals_(residuals),
        devices_(devices),
        rank_(rank) {}

  /// Validates, checks the tensors' memory, settles the compression and, in device memory, records
  /// what the tensors wait for.
  /// Blocks: never.
  /// Errors, which name the request: kInvalidArgument for what is wrong, kUnsupported for devices
  /// that cannot be used.
  Status prepare(Submission& submission, SetId set) const;

 private:
  Status settle(Submission& submission, SetId set) const;
  [[nodiscard]] Status check(const Submission& submission, SetId set) const;
  [[nodiscard]] Result<MemoryUse> use_of(const Request& request, SetId set) const;
  Status settle_compression(Request& request, SetId set) const;
  void warn_of_truncation(const Request& request, SetId set) const;
  Status prepare_device(Submission& submission, SetId set) const;

  const JobCompression compression_;
  const ProcessSetTable& sets_;
  const ResidualStore& residuals_;
  Devices& devices_;
  const int rank_;
};

}  // namespace ronde
