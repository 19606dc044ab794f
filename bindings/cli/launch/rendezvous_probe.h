// Asks the agents where the ranks can meet on their hosts.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"

namespace ronde {

/// The questions to the hosts of a job or an epoch, and their answers. The caller carries both.
/// Hosts are numbered in ascending order of their lowest ranks. Threads: one.
class RendezvousProbe {
 public:
  struct Args {
    std::vector<std::string> hosts;  ///< Their names.
    std::string interface;           ///< As LaunchOptions::network_interface.
    bool first_alone = false;        ///< Only the first host is asked.
    /// Takes a sentence that --verbose prints.
    std::function<void(const std::string& text)> say_if_verbose;
  };
  explicit RendezvousProbe(Args args)
      : args_(std::move(args)), answers_(args_.first_alone ? 1 : args_.hosts.size()) {}

  [[nodiscard]] const std::vector<std::string>& hosts() const noexcept { return args_.hosts; }
  /// The first so many hosts are asked.
  [[nodiscard]] std::size_t asked() const noexcept { return answers_.size(); }
  [[nodiscard]] ProbeMessage question(std::size_t host) const;

  /// Takes an answer. A host but that of rank 0 may not know its address: all ranks then meet at
  /// rank 0. Errors: kUnavailable with those of rank 0's host.
  Status take(std::size_t host, ProbedMessage answer);
  [[nodiscard]] bool complete() const noexcept { return answered_ == asked(); }
  /// True if the host was asked, and has answered.
  [[nodiscard]] bool has_answer(std::size_t host) const {
    return host < asked() && answers_[host].has_value();
  }

  /// By host, once complete; where one does not know its address, rank 0's host alone.
  [[nodiscard]] std::vector<Rendezvous> places() const;

 private:
  const Args args_;
  std::vector<std::optional<ProbedMessage>> answers_;
  std::size_t answered_ = 0;
};

}  // namespace ronde
