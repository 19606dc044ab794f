#include "backends/net/transport/abort_wait.h"

#include <chrono>
#include <thread>

#include "core/base/clock.h"

namespace ronde::net {
namespace {

constexpr std::chrono::milliseconds kVerdictGrace{250};

}  // namespace

Status wait_for_verdict(const Status& error, const AbortToken& abort) {
  if (error.code() != Code::kRankFailure) return error;
  const TimePoint deadline = now() + kVerdictGrace;
  while (!abort.poll() && now() < deadline) std::this_thread::sleep_for(kVerdictGrace / 100);
  return abort.aborted() ? abort.status() : error;
}

}  // namespace ronde::net
