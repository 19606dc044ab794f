// The choice of `auto` for each bundle: by costs of link and codecs, which it measures once, and by
// the times of earlier choices. All ranks of the group agree on every number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ports/executor.h"
#include "ops/compression/auto/cost_history.h"
#include "ops/compression/auto/cost_model.h"

namespace ronde {

/// How the group moves data, for measuring. All ranks call alike.
struct GroupProbe {
  int size = 1;
  bool in_memory = false;  ///< Ranks share memory, which no codec is faster than.
  /// Runs a dense allreduce of fp32 of that many bytes.
  std::function<Status(std::size_t bytes)> dense;
  /// Gives every rank the numbers of all, equally many of each.
  std::function<Result<std::vector<std::int64_t>>(std::span<const std::int64_t> mine)> exchange;
};

/// The choice for a bundle.
struct AutoChoice {
  std::string compression;  ///< As CompressionSpec writes it; empty: none.
  double predicted_s = 0;
  double dense_s = 0;    ///< Prediction for a dense allreduce.
  bool changed = false;  ///< The last bundle like this one got another.
};

/// For one group. Threads: one at a time.
class AutoCompression {
 public:
  /// The choice for a bundle, the same on all ranks; measures link and codecs at first, which takes
  /// some tens of milliseconds (several hundred on links below 10 Mbit/s).
  /// `probe` is used during the call only. Errors: the probe's.
  Result<AutoChoice> choose(const Bundle& bundle, Accuracy accuracy, const GroupProbe& probe);
  /// Learns the time of the bundle that was chosen for last. At intervals, ranks agree on it.
  /// Errors: the probe's.
  Status observe(double seconds, const GroupProbe& probe);
  /// Measurements and choices as lines for people; empty before the first choice.
  [[nodiscard]] std::vector<std::string> explain() const;

 private:
  struct Known {
    CostHistory history;
    TensorLoad load;
    Accuracy accuracy = Accuracy::kSafe;
    std::uint64_t bundles = 0;
  };
  Status measure(Accuracy accuracy, const GroupProbe& probe);
  Status measure_codecs_of(Accuracy accuracy, const GroupProbe& probe);
  Status measure_link(const GroupProbe& probe);
  Result<double> time_dense(std::size_t bytes, const GroupProbe& probe);
  void drift();
  bool settle_debts(const Bundle& bundle, CodecKind kind);

  std::optional<LinkCost> link_;
  std::optional<Accuracy> measured_for_;
  CodecCosts codecs_{};
  std::map<LoadClass, Known> known_;
  bool in_memory_ = false;
  Known* last_ = nullptr;
  CodecKind last_kind_ = kDense;
  bool last_counts_ = false;
  std::set<std::string> owed_;  // tensors that may have a residual
  std::uint64_t bundles_ = 0;
  std::uint64_t calm_until_ = 0;  // bundles before which no drift is looked for
  std::uint64_t calm_ = 64;
};

/// The predictions for a load over a link, for people: "int8, 12 ms (dense 99 ms)".
std::string explain_choice(Accuracy accuracy, const TensorLoad& load, const LinkCost& link,
                           const CodecCosts& codecs);

}  // namespace ronde
