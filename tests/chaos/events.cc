#include "tests/chaos/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "core/base/status.h"

namespace ronde::chaos {
namespace {

int event_rank = -1;

std::int64_t monotonic_us() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/// Where events go: standard output, or a pipe that the process which started this one holds.
int output() {
  const char* pipe = std::getenv("RONDE_CHAOS_EVENTS");  // NOLINT(concurrency-mt-unsafe)
  if (pipe == nullptr) return STDOUT_FILENO;
  const std::string path = "/proc/" + std::to_string(::getppid()) + "/fd/" + pipe;
  return ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

}  // namespace

void set_event_rank(int rank) { event_rank = rank; }

void say(const std::string& event, nlohmann::json fields) {
  fields["event"] = event;
  fields["at_us"] = monotonic_us();
  fields["rank"] = event_rank;
  fields["pid"] = ::getpid();
  const std::string line = fields.dump(-1, ' ', true) + "\n";
  static const int kTo = output();
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t wrote = ::write(kTo, line.data() + done, line.size() - done);
    if (wrote <= 0) return;  // the driver is gone
    done += static_cast<std::size_t>(wrote);
  }
}

void say_failed(const Error& error) {
  nlohmann::json fields = {{"code", to_string(error.code())}, {"message", error.what()}};
  if (const auto* failure = dynamic_cast<const RankFailure*>(&error)) {
    fields["about"] = failure->rank();
    fields["about_pid"] = failure->pid();
    fields["about_host"] = failure->host();
  }
  say("failed", std::move(fields));
}

}  // namespace ronde::chaos
