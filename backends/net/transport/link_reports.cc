#include "backends/net/transport/link_reports.h"

#include <fmt/format.h>

#include <chrono>

#include "core/base/log.h"

namespace ronde::net {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string LinkReports::over(std::size_t card) const {
  return cards_.size() == 1 ? std::string() : " over " + cards_[card];
}

Status LinkReports::judge(int rank, std::size_t card, const Status& error) const {
  if (error.ok()) return {};
  if (error.code() == Code::kInternal) {
    return {error.code(), fmt::format("rank {} of the group {}", rank, error.message())};
  }
  return members_.gone(rank,
                       fmt::format("is cut off: its connection{} {}", over(card), error.message()));
}

Status LinkReports::cut_off(int rank, std::size_t card, const LinkOutage& outage) const {
  return members_.gone(
      rank,
      fmt::format("is cut off: its connection with {}{} {}, and there was none for {:.3g} s ({})",
                  members_.name_of(members_.rank()), over(card), outage.reason, seconds(limit_),
                  setting_));
}

Status LinkReports::not_connected(int rank, std::size_t card, const Status& why) const {
  if (cards_.size() == 1) return members_.not_connected(rank, why);
  const std::string reason = why.message().empty() ? "" : ": " + why.message();
  return members_.not_connected(rank, {why.code(), "no connection" + over(card) + reason});
}

void LinkReports::report_outage(int rank, std::size_t card, const LinkOutage& outage) const {
  net::report_outage(outage, "the connection with " + members_.name_of(rank) + over(card),
                     members_.who(rank).rank, observers_);
}

void LinkReports::warn_of_card(int rank, std::size_t card, std::string_view reason) const {
  log(LogLevel::kWarning,
      "the connection with {}{} {}: the network card is left out, and the others carry its share",
      members_.name_of(rank), over(card), reason);
}

}  // namespace ronde::net
