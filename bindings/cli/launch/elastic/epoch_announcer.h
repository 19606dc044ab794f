// Tells workers of their places in a new epoch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"
#include "core/elastic/director.h"

namespace ronde {

/// Makes each epoch a job of its own: its job id, a fresh secret and rendezvous. Threads: one.
class EpochAnnouncer {
 public:
  using Send = std::function<void(const std::string& host, const std::string& frame)>;
  /// `job`: the beginning of all epochs' job ids. `interface`: as LaunchOptions::network_interface.
  EpochAnnouncer(Send send, std::string job, std::string interface)
      : send_(std::move(send)), job_(std::move(job)), interface_(std::move(interface)) {}

  /// Tells the workers at once if they are on one host. Else the host of rank 0 is first asked for
  /// an address.
  void begin(elastic::BeginEpoch epoch);
  /// The answer of a host. Errors: kInvalidArgument where the host has no address to offer.
  Status on_probed(const std::string& host, const ProbedMessage& answer);
  /// True if the workers of this epoch are not told of it yet; they get the note right after.
  bool defer(const elastic::VoidNote& note);
  /// The epoch of which no worker was told yet, if it needed an answer of this lost host.
  std::optional<elastic::BeginEpoch> take_unannounced(const std::string& lost_host);

 private:
  void announce(const elastic::BeginEpoch& epoch, const std::string& rendezvous);

  const Send send_;
  const std::string job_;
  const std::string interface_;
  std::map<std::string, std::string> addresses_;  ///< By host, as they were answered before.
  std::optional<elastic::BeginEpoch> pending_;
  std::optional<elastic::VoidNote> pending_void_;  ///< Of the pending epoch.
};

}  // namespace ronde
