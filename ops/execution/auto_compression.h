// The choice of `auto` for each bundle: by costs of link and codecs, which it measures once, and by
// the times of earlier choices. All ranks of the group agree on every number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/communicator.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/communicator/number_exchange.h"
#include "ops/compression/auto/cost_history.h"
#include "ops/compression/auto/cost_model.h"

namespace ronde {

/// The choice for a bundle.
struct AutoChoice {
  std::string compression;  ///< As CompressionSpec writes it; empty: none.
  double predicted_s = 0;
  double dense_s = 0;    ///< Prediction for a dense allreduce.
  bool changed = false;  ///< The last bundle like this one got another.
};

/// For one group; all ranks call alike. Threads: one at a time.
class AutoCompression {
 public:
  struct Options {
    int size = 1;
    bool in_memory = false;               ///< Ranks share memory, which no codec is faster than.
    bool deterministic = false;           ///< `auto` then compresses nothing: it depends on time.
    const EventSwitch* events = nullptr;  ///< Gets the choices; may be null.
  };
  /// `host` runs dense work in host memory. Both outlive it.
  AutoCompression(const Options& options, Communicator& host, NumberExchange& exchange)
      : options_(options), host_(host), exchange_(exchange) {}

  /// The choice for a bundle of `bytes` on all ranks together, the same on all. One that is not
  /// `auto` keeps what it says; `auto` in device memory is dense. Measures link and codecs at
  /// first, which takes some tens of milliseconds (several hundred on links below 10 Mbit/s).
  /// Blocks where ranks measure or agree. Errors: kInvalidArgument where the compression does not
  /// parse; those of the measurements.
  Result<AutoChoice> choose(const Bundle& bundle, std::size_t bytes, const AbortToken& abort);
  /// Ends the time of the bundle that was chosen for last, and learns it; does nothing if it is not
  /// `auto`. Errors: the exchange's.
  Status observe(const AbortToken& abort);
  /// Learns a time of that bundle. At intervals, ranks agree on it. Errors: the exchange's.
  Status learn(double seconds, const AbortToken& abort);
  /// Nanoseconds since choose() that do not count: the caller adds to them.
  [[nodiscard]] std::int64_t* untimed_ns() noexcept { return &untimed_ns_; }
  /// Measurements and choices as lines for people; empty before the first choice.
  [[nodiscard]] std::vector<std::string> explain() const;

 private:
  struct Known {
    CostHistory history;
    TensorLoad load;
    Accuracy accuracy = Accuracy::kSafe;
    std::uint64_t bundles = 0;
  };
  Result<AutoChoice> choose_for(const Bundle& bundle, std::size_t bytes, Accuracy accuracy,
                                const AbortToken& abort);
  Status measure(Accuracy accuracy, const AbortToken& abort);
  Status measure_codecs_of(Accuracy accuracy, const AbortToken& abort);
  Status measure_link(const AbortToken& abort);
  Result<double> time_dense(std::size_t bytes, const AbortToken& abort);
  void drift();
  bool settle_debts(const Bundle& bundle, CodecKind kind);
  void report(const AutoChoice& choice, std::size_t bytes) const;

  const Options options_;
  Communicator& host_;
  NumberExchange& exchange_;
  std::optional<LinkCost> link_;
  std::optional<Accuracy> measured_for_;
  CodecCosts codecs_{};
  std::map<std::pair<Collective, LoadClass>, Known> known_;
  bool asked_ = false;  // for a bundle that may be compressed
  // The bundle that was chosen for last.
  bool timing_ = false;
  TimePoint begin_;
  std::int64_t untimed_ns_ = 0;
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
