// Tells workers of their places in a new epoch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/launch/job.h"
#include "bindings/cli/launch/messages.h"
#include "core/base/status.h"
#include "core/elastic/director.h"

namespace ronde {

/// Describes each epoch against the one before. Threads: one.
class EpochText {
 public:
  /// "epoch 3: 3 of 4 workers go on; worker 2 (pid 7) was killed by signal 9 (Killed)".
  std::string begin(const elastic::BeginEpoch& epoch);

 private:
  std::set<elastic::WorkerId> members_;  ///< Of the last epoch.
};

/// Makes each epoch a job of its own: its job id, a fresh secret, and where its ranks meet.
/// Threads: one.
class EpochAnnouncer {
 public:
  struct Args {
    std::function<void(const std::string& host, const std::string& frame)> send;
    std::function<void(const std::string& text)> say_if_verbose;
    std::string job;        ///< The beginning of all epochs' job ids.
    std::string interface;  ///< As LaunchOptions::network_interface.
  };
  explicit EpochAnnouncer(Args args) : args_(std::move(args)) {}

  /// Tells the workers at once if they are on one host. Else all their hosts are first asked for
  /// addresses.
  void begin(elastic::BeginEpoch epoch);
  /// The answer of a host. Errors: kUnavailable where that of rank 0 has no address to offer.
  Status on_probed(const std::string& host, const ProbedMessage& answer);
  /// True if the workers of this epoch are not told of it yet; they get the note right after.
  bool defer(const elastic::VoidNote& note);
  /// The epoch of which no worker was told yet, if it has workers on this host, which will not
  /// answer any more.
  std::optional<elastic::BeginEpoch> take_unannounced(const std::string& lost_host);

 private:
  /// An epoch whose hosts have not all answered.
  struct Pending {
    elastic::BeginEpoch epoch;
    RendezvousProbe probe;
    std::optional<elastic::VoidNote> end = {};

    /// The host's number; that of none: how many there are.
    [[nodiscard]] std::size_t number_of(const std::string& host) const;
  };

  [[nodiscard]] elastic::EpochNote note_of(const elastic::BeginEpoch& epoch) const;
  void announce(const Pending& pending);
  void send_notes(const elastic::BeginEpoch& epoch, elastic::EpochNote note,
                  const std::map<std::string, std::string>& trees);

  const Args args_;
  std::map<std::string, std::string> addresses_;  ///< By host, as they were answered before.
  std::optional<Pending> pending_;
};

}  // namespace ronde
