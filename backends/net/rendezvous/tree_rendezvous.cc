#include "backends/net/rendezvous/tree_rendezvous.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/net/link/stream.h"
#include "backends/net/rendezvous/connector.h"
#include "backends/net/rendezvous/rendezvous.h"
#include "core/base/bytes.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kAnswerLimit{2};   // a level: from the end of the time to reports
constexpr std::chrono::seconds kVerdictSlack{5};  // the other ranks' time may start later
constexpr std::chrono::seconds kLastLimit{3};     // for a rank that has failed to hear the verdict

// Up go an empty message once the rank above has answered, and one report; a second one where a
// rank fails later. Down go an empty message when the time is up, and the verdict.
struct Report {
  Status status;
  std::vector<int> missing;  ///< Ranks that have not come.
  std::vector<int> unheard;  ///< Ranks that meet through those.
  PackedRoster roster;       ///< Of the ranks that meet through the sender.

  static void fields(auto& wire, auto& self) {
    wire(self.status, self.missing, self.unheard, self.roster);
  }
};

/// "2, 3, 9-15".
std::string list_ranks(const std::set<int>& ranks) {
  std::string text;
  for (auto it = ranks.begin(); it != ranks.end();) {
    const int first = *it;
    int last = first;
    while (++it != ranks.end() && *it == last + 1) ++last;
    const char* const comma = text.empty() ? "" : ", ";
    if (last == first) text += fmt::format("{}{}", comma, first);
    if (last == first + 1) text += fmt::format("{}{}, {}", comma, first, last);
    if (last > first + 1) text += fmt::format("{}{}-{}", comma, first, last);
  }
  return text;
}

/// One rank's part of the rendezvous. It gathers, reports, waits for the verdict and passes it on.
class TreeNode {
 public:
  explicit TreeNode(const TreeRendezvousArgs& args)
      : args_(args),
        place_(*args.place),
        deadline_(now() + args.timeout),
        limit_(deadline_, args.cancel),
        connector_(*args.party) {
    for (const MeetingPlace::Child& child : place_.children) children_[child.rank].place = &child;
    waiting_ = children_.size();
  }

  TreeMeeting run() {
    const Status failure = gather();
    const std::string verdict =
        is_root() ? encode_verdict(conclude(failure)) : get_verdict(failure);
    spread(verdict);
    auto roster = decode_verdict(verdict);
    if (!roster.ok()) linger();
    return {std::move(roster), messages_};
  }

 private:
  struct Child {
    const MeetingPlace::Child* place = nullptr;
    Stream stream;
    Introduction who;
    bool acknowledged = false;  ///< It knows that it is connected.
    bool reported = false;
  };

  [[nodiscard]] bool is_root() const noexcept { return place_.parent < 0; }
  [[nodiscard]] bool complete() const noexcept {
    return waiting_ == 0 && (is_root() || parent_.valid());
  }
  [[nodiscard]] WaitLimit within(Duration longest) const { return {now() + longest, args_.cancel}; }

  // Gathering.

  Status gather() {
    if (!is_root()) dial_parent();
    RONDE_RETURN_IF_ERROR(listen());
    while (!complete() && !verdict_) {
      auto event = connector_.next(limit_);
      if (!event.ok()) return event.status();
      if (event->kind == ConnectorEvent::Kind::kTimeout && !ask_for_reports()) break;
      RONDE_RETURN_IF_ERROR(handle(std::move(*event)));
    }
    note_missing();
    return is_root() || parent_.valid() || verdict_ ? Status() : parent_unreachable();
  }

  Status listen() {
    if (children_.empty()) return {};
    RONDE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_on(place_.own));
    connector_.listen(std::move(listener));
    return {};
  }

  void dial_parent() {
    connector_.dial({.party = {std::shared_ptr<void>(), args_.party},
                     .rank = place_.parent,
                     .endpoint = place_.parent_at,
                     .deadline = deadline_ + kLastLimit});
  }

  /// The time is up: ranks below say what they lack. False where there is none to ask, or all have
  /// been asked before.
  bool ask_for_reports() {
    if (std::exchange(time_is_up_, true)) return false;
    bool asked = false;
    for (auto& [rank, child] : children_) {
      if (!child.stream.valid() || child.reported) continue;
      send(child.stream, {});
      asked = true;
    }
    limit_ = within(kAnswerLimit * place_.levels_below);
    return asked;
  }

  void note_missing() {
    for (const auto& [rank, child] : children_) {
      if (child.reported) continue;
      missing_.insert(rank);
      unheard_.insert(child.place->behind.begin(), child.place->behind.end());
    }
  }

  [[nodiscard]] Status parent_unreachable() const {
    return Status(Code::kTimeout,
                  fmt::format("rank {} could not reach rank {} at {}: {}", args_.party->rank,
                              place_.parent, place_.parent_at.text(), parent_failure_))
        .about({place_.parent, {}, 0});
  }

  // Events.

  Status handle(ConnectorEvent event) {
    switch (event.kind) {
      case ConnectorEvent::Kind::kAdmitted:
        return event.dialed ? on_parent_reached(std::move(event)) : on_child_came(std::move(event));
      case ConnectorEvent::Kind::kReadable:
        return event.rank == place_.parent ? on_parent() : on_child(event.rank);
      case ConnectorEvent::Kind::kGivenUp:
        on_parent_not_reached(event.status);
        break;
      case ConnectorEvent::Kind::kTimeout:
        break;
    }
    return {};
  }

  Status on_parent_reached(ConnectorEvent event) {
    parent_ = std::move(event.stream);
    parent_who_ = std::move(event.peer);
    ++messages_;
    if (waiting_ > 0) send(parent_, {});  // else the report goes at once
    connector_.watch(place_.parent, parent_.fd());
    return {};
  }

  void on_parent_not_reached(const Status& why) {
    parent_failure_ = why.message();
    if (disagrees(why.code())) {
      verdict_ = encode_verdict(why);
    } else if (now() < deadline_) {
      dial_parent();  // it may not have started yet
    }
  }

  Status on_child_came(ConnectorEvent event) {
    const auto found = children_.find(event.rank);
    if (found == children_.end()) return does_not_belong(event.rank, event.peer);
    Child& child = found->second;
    if (child.acknowledged) return came_twice(event.rank, child.who, event.peer);
    // One that gave up its first connection during the handshake connects again.
    child.stream = std::move(event.stream);
    child.who = std::move(event.peer);
    ++messages_;
    roster_[event.rank] = child.who;
    connector_.watch(event.rank, child.stream.fd());
    return {};
  }

  Status on_parent() {
    do {
      auto bytes = receive(parent_);
      if (!bytes.ok()) {
        connector_.unwatch(place_.parent);
        verdict_ = encode_verdict(went_away(place_.parent, parent_who_, bytes.status().message()));
      } else if (bytes->empty()) {
        limit_ = within(Duration::zero());
      } else {
        verdict_ = std::move(*bytes);
      }
    } while (!verdict_ && parent_.has_unread());
    return {};
  }

  Status on_child(int rank) {
    Child& child = children_.at(rank);
    do {
      const auto bytes = receive(child.stream);
      if (!bytes.ok()) return on_child_gone(rank, child, bytes.status());
      child.acknowledged = true;
      if (!bytes->empty()) RONDE_RETURN_IF_ERROR(take_report(child, *bytes));
    } while (child.stream.has_unread());
    return {};
  }

  Status on_child_gone(int rank, Child& child, const Status& why) {
    connector_.unwatch(rank);
    child.stream = Stream();
    return child.acknowledged ? went_away(rank, child.who, why.message()) : Status();
  }

  Status take_report(Child& child, std::string_view bytes) {
    auto report = decode_wire<Report>(as_bytes(bytes), "report");
    if (!report.ok()) return {Code::kInternal, report.status().message()};
    RONDE_RETURN_IF_ERROR(report->status);
    auto roster = report->roster.unpack();
    if (!roster.ok()) return {Code::kInternal, roster.status().message()};
    if (!std::exchange(child.reported, true)) --waiting_;
    missing_.insert(report->missing.begin(), report->missing.end());
    unheard_.insert(report->unheard.begin(), report->unheard.end());
    roster_.merge(*roster);
    return {};
  }

  // The verdict.

  /// The verdict of rank 0.
  Result<Roster> conclude(const Status& failure) {
    RONDE_RETURN_IF_ERROR(failure);
    if (!missing_.empty()) return not_come();
    roster_[args_.party->rank] = args_.party->self;
    return std::move(roster_);
  }

  [[nodiscard]] Status not_come() const {
    std::string text =
        fmt::format("{} of {} ranks did not come in time: rank{} {}", missing_.size(),
                    args_.party->size, missing_.size() == 1 ? "" : "s", list_ranks(missing_));
    if (!unheard_.empty()) {
      text += fmt::format("; nothing was heard of ranks that meet through {}: {}",
                          missing_.size() == 1 ? "it" : "them", list_ranks(unheard_));
    }
    return Status(Code::kTimeout, text).about({*missing_.begin(), {}, 0});
  }

  /// Reports to the rank above, and waits for the verdict.
  std::string get_verdict(Status failure) {
    if (!parent_.valid() && !verdict_ && now() < deadline_) await_parent();
    if (verdict_) return *verdict_;
    if (!parent_.valid()) return encode_verdict(failure);
    report(failure);
    WaitLimit limit = verdict_limit(failure);
    while (!verdict_) {
      auto event = connector_.next(limit);
      const bool timeout = event.ok() && event->kind == ConnectorEvent::Kind::kTimeout;
      if (timeout) return encode_verdict(failure.ok() ? no_verdict() : failure);
      const Status status = event.ok() ? handle(std::move(*event)) : event.status();
      if (status.ok() || !failure.ok()) continue;
      failure = status;
      report(failure);
      limit = verdict_limit(failure);
    }
    return *verdict_;
  }

  /// This rank has failed. The others are to know why.
  void await_parent() {
    const WaitLimit limit = within(kLastLimit);
    while (!parent_.valid() && !verdict_) {
      auto event = connector_.next(limit);
      if (event.ok() && event->kind == ConnectorEvent::Kind::kTimeout) return;
      if (event.ok()) (void)handle(std::move(*event)).ok();
    }
  }

  [[nodiscard]] WaitLimit verdict_limit(const Status& failure) const {
    if (!failure.ok()) return within(kLastLimit);
    return within(args_.timeout + kVerdictSlack);
  }

  [[nodiscard]] Status no_verdict() const {
    return Status(Code::kTimeout,
                  fmt::format("rank {} heard no verdict on the rendezvous from {} in time",
                              args_.party->rank, describe(place_.parent, parent_who_)))
        .about({place_.parent, parent_who_.host_name, parent_who_.pid});
  }

  void report(const Status& failure) {
    send(parent_, encode_wire<std::string>(Report{.status = failure,
                                                  .missing = {missing_.begin(), missing_.end()},
                                                  .unheard = {unheard_.begin(), unheard_.end()},
                                                  .roster = PackedRoster(roster_)}));
  }

  void spread(const std::string& verdict) {
    for (auto& [rank, child] : children_) {
      if (child.stream.valid()) send(child.stream, verdict);
    }
  }

  /// After an error children may still send.
  void linger() {
    const WaitLimit limit = within(kLinger);
    for (auto& [rank, child] : children_) {
      if (child.stream.valid()) drain(child.stream, limit);
    }
  }

  // Messages.

  /// Best effort: whoever does not receive it finds the connection closed.
  void send(Stream& stream, std::string_view message) {
    ++messages_;
    (void)send_message(stream, message, within(kMessageLimit)).ok();
  }

  Result<std::string> receive(Stream& stream) {
    ++messages_;
    return recv_message(stream, most_verdict_bytes(args_.party->size), within(kMessageLimit));
  }

  const TreeRendezvousArgs& args_;
  const MeetingPlace& place_;
  const TimePoint deadline_;
  WaitLimit limit_;
  Connector connector_;
  std::map<int, Child> children_;
  std::size_t waiting_ = 0;  ///< Children that have not reported.
  bool time_is_up_ = false;
  Stream parent_;
  Introduction parent_who_;
  std::string parent_failure_ = "no answer";
  std::optional<std::string> verdict_;  ///< That came from the rank above.
  Roster roster_;                       ///< Of the ranks that meet through this one.
  std::set<int> missing_;
  std::set<int> unheard_;
  int messages_ = 0;
};

}  // namespace

TreeMeeting meet_by_tree(const TreeRendezvousArgs& args) { return TreeNode(args).run(); }

}  // namespace ronde::net
