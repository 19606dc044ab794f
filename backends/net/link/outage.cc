#include "backends/net/link/outage.h"

#include <chrono>

#include "core/base/log.h"

namespace ronde::net {

void report_outage(const LinkOutage& outage, const std::string& what, int rank,
                   const ConnectionObservers& observers) {
  const Duration lasted = outage.ended - outage.began;
  log(LogLevel::kWarning, "{} {}; it works again after {:.2f} s", what, outage.reason,
      std::chrono::duration<double>(lasted).count());
  if (observers.counts) {
    observers.counts->healed.fetch_add(1);
    observers.counts->outage_ns.fetch_add(static_cast<std::uint64_t>(to_ns(lasted)));
  }
  if (observers.on_healed) {
    observers.on_healed(rank, {to_ns(outage.began), to_ns(outage.ended)});
  }
}

}  // namespace ronde::net
