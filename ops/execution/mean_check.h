// Compares the sums and averages of named tensors with those of all ranks' inputs in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/abort.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "core/ports/mean_errors.h"
#include "ops/communicator/number_exchange.h"

namespace ronde {

/// The result of one rank that is farthest from the one in float64.
struct MeanError {
  /// In units in the last place of the result's type at the sum of the inputs' magnitudes, which
  /// cancellation does not make small.
  double ulps = 0;
  std::int64_t element = -1;  ///< In the tensor; negative: nothing was compared.
  int rank = -1;              ///< In the group; of the job, once ranks have agreed.
  double value = 0;
  double exact = 0;
};

/// The most that rounding explains: each addition of `ranks` inputs, and the scaling.
constexpr double mean_error_bound(int ranks) noexcept { return ranks + 1.0; }

/// The distance of neighbouring values of `dtype` at a magnitude.
double ulp_at(DType dtype, double magnitude) noexcept;

/// The error of a result, as MeanError has it. Values that are not finite for cause have none.
double error_in_ulps(DType dtype, double value, long double exact, long double magnitude) noexcept;

/// The settings of the check.
struct MeanCheckOptions {
  std::function<std::uint64_t()> steps = {};  ///< Training steps that have been marked; or empty.
  const EventSwitch* events = nullptr;        ///< Outlives it; may be null.
  MeanErrors* totals = nullptr;               ///< Outlives it; may be null.
  std::vector<int> ranks = {};  ///< Of the job, in the group's order; empty: they are the same.
};

/// Calls for a work: begin(), then end() once it has run. The first rank that has the tensor
/// reports: a warning where an error is beyond the bound, else every 100 operations of a tensor and
/// at the end. Threads: one at a time.
class MeanCheck {
 public:
  /// `exchange` outlives it.
  MeanCheck(MeanCheckOptions options, std::shared_ptr<const ReduceKernels> kernels,
            NumberExchange& exchange, int rank, int size)
      : options_(std::move(options)),
        kernels_(std::move(kernels)),
        exchange_(exchange),
        rank_(rank),
        size_(size) {}
  ~MeanCheck();
  MeanCheck(const MeanCheck&) = delete;
  MeanCheck& operator=(const MeanCheck&) = delete;

  /// True if a tensor of the bundle is to be compared: a sum or average of floating types in host
  /// memory. The same on all ranks.
  [[nodiscard]] static bool applies(const Bundle& bundle) noexcept;

  /// Keeps the inputs of the tensors that are compared.
  void begin(const Bundle& bundle, const Work& work);
  /// Compares the results. `lossy`: they are compressed, so that no bound holds.
  /// Blocks while ranks exchange their inputs. Errors: those of the exchange.
  Status end(const Bundle& bundle, const Work& work, bool lossy, const AbortToken& abort);

 private:
  struct Known {
    std::uint64_t checks = 0;
    MeanError worst;
    std::optional<TimePoint> warned;
  };

  Result<MeanError> compare(const Work& work, std::size_t segment, const AbortToken& abort);
  MeanError worst_of(const Work& work, std::span<const std::int64_t> all, std::size_t count,
                     const std::byte* out);
  Result<MeanError> agree(MeanError mine, const AbortToken& abort);
  void report(const BundleTensor& tensor, const MeanError& error, bool lossy);
  void warn(const std::string& name, Known& known, const MeanError& error);

  const MeanCheckOptions options_;
  const std::shared_ptr<const ReduceKernels> kernels_;
  NumberExchange& exchange_;
  const int rank_;
  const int size_;
  std::map<std::string, Known, std::less<>> known_;
  int reporter_ = -1;  // in the group
  // The work at hand.
  std::vector<std::vector<std::byte>> inputs_;  // by segment; empty: not compared, or zeros
  std::vector<double> values_;                  // of a block
  std::vector<std::int64_t> mine_;              // their bits
};

}  // namespace ronde
