// Chooses the compression of `auto` bundles, which it times to choose better.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/event_sink.h"
#include "core/ports/executor.h"
#include "ops/communicator/number_exchange.h"
#include "ops/execution/auto_compression.h"
#include "ops/execution/host_communicators.h"

namespace ronde {

/// Runs AutoCompression over the communicators of one group. Threads: one at a time.
class AutoTuner {
 public:
  struct Options {
    int size = 1;
    bool deterministic = false;           ///< `auto` then compresses nothing: it depends on time.
    const EventSwitch* events = nullptr;  ///< Gets the choices; may be null.
  };
  /// `host` and `exchange` outlive it.
  AutoTuner(Options options, HostCommunicators& host, NumberExchange& exchange)
      : options_(options), host_(host), exchange_(exchange) {}

  /// The compression of a bundle; empty: dense. A bundle that is not `auto` keeps what it says.
  /// `auto` in device memory is dense. Blocks where ranks measure or agree.
  /// Errors: kInvalidArgument where the compression does not parse; those of the measurements.
  Result<std::string> choose(const Bundle& bundle, std::size_t bytes, const AbortToken& abort);
  /// Ends the time of the bundle that was chosen for last; does nothing if it is not `auto`.
  /// Errors: the exchange's.
  Status observe(const AbortToken& abort);
  /// Nanoseconds since choose() that do not count: the caller adds to them.
  [[nodiscard]] std::int64_t* untimed_ns() noexcept { return &untimed_ns_; }
  [[nodiscard]] std::vector<std::string> explain() const { return auto_.explain(); }

 private:
  GroupProbe probe(const AbortToken& abort);
  Status run_zeros(std::size_t bytes, const AbortToken& abort);
  void report(const AutoChoice& choice, std::size_t bytes) const;

  const Options options_;
  HostCommunicators& host_;
  NumberExchange& exchange_;
  AutoCompression auto_;
  bool timing_ = false;
  TimePoint begin_;
  std::int64_t untimed_ns_ = 0;
};

}  // namespace ronde
