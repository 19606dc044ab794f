// Asks the agents where the ranks can meet on their hosts.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/launch/agent_link.h"
#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/launcher.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"

namespace ronde {

/// The questions to the hosts of a job, and their answers. Threads: one.
class RendezvousProbe {
 public:
  /// All outlive it.
  RendezvousProbe(const LaunchOptions& options, std::vector<Host>& hosts,
                  std::function<void(const std::string& text)> say_if_verbose)
      : options_(options), hosts_(hosts), say_if_verbose_(std::move(say_if_verbose)) {}

  /// Asks every host, or under mpirun the first alone.
  void send();
  [[nodiscard]] bool sent() const noexcept { return !answers_.empty(); }

  /// Takes an answer. A host but that of rank 0 may not know its address: all ranks then meet at
  /// rank 0. Errors: those of rank 0's host.
  Status take(const Host& host, const Frame& frame);
  [[nodiscard]] bool complete() const noexcept { return sent() && waiting_ == 0; }
  /// True if a host that was asked has answered.
  [[nodiscard]] bool has_answer(const Host& host) const;

  /// By host, once complete; where one does not know its address, rank 0's host alone.
  [[nodiscard]] std::vector<Rendezvous> places() const;

 private:
  [[nodiscard]] std::size_t index_of(const Host& host) const {
    return static_cast<std::size_t>(&host - hosts_.data());
  }
  [[nodiscard]] ProbeMessage probe_of(int host) const;

  const LaunchOptions& options_;
  std::vector<Host>& hosts_;
  const std::function<void(const std::string& text)> say_if_verbose_;
  std::vector<std::optional<ProbedMessage>> answers_;
  std::size_t waiting_ = 0;
};

}  // namespace ronde
