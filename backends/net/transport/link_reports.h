// The errors, warnings and counts about connections with the peers of a group.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/net/transport/bonded_link.h"
#include "backends/net/transport/members.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/connection_counts.h"

namespace ronde::net {

/// Names peers, and cards where there are several. Threads: immutable, so any.
class LinkReports {
 public:
  /// `cards`: their names. `limit`: how long an outage may last, of each card or of all.
  LinkReports(Members members, std::vector<std::string> cards, ConnectionObservers observers,
              Duration limit, bool of_each)
      : members_(std::move(members)),
        cards_(std::move(cards)),
        observers_(std::move(observers)),
        limit_(limit),
        setting_(of_each ? "RONDE_LINK_TIMEOUT_MS; RONDE_RECONNECT_SECONDS lets other cards go on"
                         : "RONDE_RECONNECT_SECONDS") {}

  /// The error of a link over a card; Ok stays Ok.
  [[nodiscard]] Status judge(int rank, std::size_t card, const Status& error) const;
  /// The error of an outage that has lasted for the limit.
  [[nodiscard]] Status cut_off(int rank, std::size_t card, const LinkOutage& outage) const;
  /// The error of a dial that has ended without a connection.
  [[nodiscard]] Status not_connected(int rank, std::size_t card, const Status& why) const;

  /// Warns of an outage that has ended, counts it and tells the observers.
  void report_outage(int rank, std::size_t card, const LinkOutage& outage) const;
  /// Warns of a card whose share the others carry.
  void warn_of_card(int rank, std::size_t card, std::string_view reason) const;

 private:
  /// " over eth1"; empty where there is one card.
  [[nodiscard]] std::string over(std::size_t card) const;

  const Members members_;
  const std::vector<std::string> cards_;
  const ConnectionObservers observers_;
  const Duration limit_;
  const std::string setting_;
};

}  // namespace ronde::net
