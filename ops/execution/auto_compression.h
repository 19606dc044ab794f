// "auto": which compression each bundle gets, if any. Measures the link and the codecs once, learns
// from what choices turn out to take, and agrees with all ranks of its group on every number.
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
  /// Gives every rank the words of all, equally many of each.
  std::function<Result<std::vector<std::int64_t>>(std::span<const std::int64_t> mine)> exchange;
};

/// What was chosen for a bundle.
struct AutoChoice {
  std::string compression;  ///< As CompressionSpec writes it; empty: none.
  double predicted_s = 0;
  double dense_s = 0;    ///< What is expected of a dense allreduce.
  bool changed = false;  ///< Not what the last bundle like this one got.
};

/// For one group. Threads: one at a time.
class AutoCompression {
 public:
  /// The choice for a bundle, the same on all ranks; measures link and codecs at first, which takes
  /// some tens of milliseconds (several hundred on links below 10 Mbit/s).
  /// `probe` is used during the call only. Errors: the probe's.
  Result<AutoChoice> choose(const Bundle& bundle, Accuracy accuracy, const GroupProbe& probe);
  /// Learns what the bundle that was chosen for last took. Now and then that is agreed with all
  /// ranks. Errors: the probe's.
  Status observe(double seconds, const GroupProbe& probe);
  /// What was measured and chosen, for people, one line each; empty before the first choice.
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
  std::set<std::string> owed_;  // tensors of which something may be left over
  std::uint64_t bundles_ = 0;
  std::uint64_t calm_until_ = 0;  // bundles before which no drift is looked for
  std::uint64_t calm_ = 64;
};

/// The predictions for a load over a link, for people: "int8, 12 ms (dense 99 ms)".
std::string explain_choice(Accuracy accuracy, const TensorLoad& load, const LinkCost& link,
                           const CodecCosts& codecs);

}  // namespace ronde
