#include "backends/net/meet/tree_rendezvous.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/net/connection/frame.h"
#include "backends/net/connection/socket.h"
#include "backends/net/connection/stream.h"
#include "backends/net/meet/rendezvous.h"
#include "backends/net/mesh/connector.h"
#include "core/base/bytes.h"
#include "core/base/join_text.h"
#include "core/base/wire_codec.h"

namespace ronde::net {

namespace {

constexpr std::chrono::seconds kAnswerLimit{2};    // a level: from the end of the time to reports
constexpr std::chrono::seconds kVerdictSlack{5};   // the other ranks' time may start later
constexpr std::chrono::seconds kLastLimit{3};      // for a rank that has failed to hear the verdict
constexpr std::chrono::seconds kMessageLimit{2};   // for one message to be sent or received
constexpr std::chrono::milliseconds kLinger{500};  // for peers to close after an error
constexpr std::chrono::milliseconds kTogether{1};  // between ranks that are reported together

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

/// Reads and drops what a peer sends until it closes: closing while its bytes arrive would cost it
/// the verdict.
void drain(Stream& stream, const WaitLimit& limit) {
  std::array<std::byte, 4096> unread{};
  const iovec piece{unread.data(), unread.size()};
  while (wait_for(stream.fd(), POLLIN, limit)) {
    if (!stream.receive({&piece, 1}).ok()) return;
  }
}

std::vector<WayUp> ways_of(const RendezvousPlace& place) {
  if (place.parent < 0) return {};
  return {{.rank = place.parent, .endpoints = {place.parent_at}}};
}

bool is_same_process(const Introduction& a, const Introduction& b) {
  return a.pid == b.pid && a.host_identity == b.host_identity;
}

/// One rank's part of the rendezvous. It gathers, reports, waits for the verdict and passes it on.
///
/// Up go an empty message once the rank above has answered, and a report: another one where a rank
/// fails later, or comes to an open place. Down go an empty message when the time is up, and the
/// verdict.
class TreeNode {
 public:
  explicit TreeNode(TreeRendezvousArgs args)
      : args_(std::move(args)),
        place_(*args_.place),
        ways_(args_.ways.empty() ? ways_of(place_) : args_.ways),
        deadline_(now() + args_.timeout),
        limit_(deadline_, args_.cancel),
        connector_(*args_.identity, args_.greeting) {
    for (const RendezvousPlace::Child& child : place_.children)
      children_[child.rank].place = &child;
    waiting_ = children_.size();
  }

  TreeResult run() {
    const Status failure = gather();
    const std::string verdict =
        is_root() ? encode_verdict(conclude(failure)) : get_verdict(failure);
    auto roster = decode_verdict(verdict, args_.secret);
    spread(place_.open && args_.secret != nullptr ? encode_verdict(roster, *args_.secret)
                                                  : verdict);
    if (!roster.ok()) linger();
    const auto came = [](const auto& entry) { return entry.second.stream.valid(); };
    return {std::move(roster), messages_, static_cast<int>(std::ranges::count_if(children_, came))};
  }

 private:
  struct Child {
    const RendezvousPlace::Child* place = nullptr;  ///< Null where the place is open.
    Stream stream;
    Introduction who;
    bool acknowledged = false;  ///< It knows that it is connected.
    bool reported = false;
  };

  [[nodiscard]] bool is_root() const noexcept { return ways_.empty(); }
  [[nodiscard]] bool is_parent(int rank) const noexcept { return rank == parent_rank_; }
  [[nodiscard]] bool complete() const noexcept {
    return waiting_ == 0 && (is_root() || parent_.valid());
  }
  [[nodiscard]] WaitLimit within(Duration longest) const { return {now() + longest, args_.cancel}; }

  // Gathering.

  Status gather() {
    if (!is_root()) dial_parent();
    RONDE_RETURN_IF_ERROR(listen());
    while (!verdict_ && (place_.open || !complete())) {
      auto event = connector_.next(complete() ? limit_.within(kTogether) : limit_);
      if (!event.ok()) return event.status();
      const bool timeout = event->kind == ConnectorEvent::Kind::kTimeout;
      if (timeout && (complete() || !ask_for_reports())) break;
      RONDE_RETURN_IF_ERROR(handle(std::move(*event)));
    }
    note_missing();
    return is_root() || parent_.valid() || verdict_ ? Status() : parent_unreachable();
  }

  Status listen() {
    if (children_.empty() && !place_.open) return {};
    if (!args_.listener.valid()) {
      RONDE_ASSIGN_OR_RETURN(args_.listener, listen_on(place_.own));
    }
    connector_.listen(std::move(args_.listener));
    return {};
  }

  [[nodiscard]] const WayUp& way() const { return ways_[way_]; }

  void dial_parent() {
    const Duration left = deadline_ - now();
    connector_.dial({.identity = {std::shared_ptr<void>(), args_.identity},
                     .rank = way().rank,
                     .endpoints = way().endpoints,
                     .deadline = left > way().time ? now() + way().time : deadline_,
                     .refusal_limit = way().refusal_limit,
                     .rendezvous = true,
                     .read_greeting = way().read_greeting});
    dialing_ = true;
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
      if (child.reported || place_.open) continue;
      missing_.insert(rank);
      if (connector_.unproven().contains(rank)) unproven_.insert(rank);
      unheard_.insert(child.place->behind.begin(), child.place->behind.end());
    }
  }

  [[nodiscard]] Status parent_unreachable() const {
    const WayUp& last = ways_.back();
    std::vector<std::string> addresses;
    for (const Endpoint& endpoint : last.endpoints) addresses.push_back(endpoint.text());
    const std::string why = parent_failure_.empty()
                                ? fmt::format("{}: no answer", join_text(addresses, ", "))
                                : parent_failure_;
    return advised(Status(Code::kTimeout, fmt::format("rank {} could not reach rank {} at {}",
                                                      args_.identity->rank, last.rank, why))
                       .about({last.rank, {}, 0}));
  }

  [[nodiscard]] Status advised(const Status& failure) const {
    return args_.advise ? args_.advise(failure) : failure;
  }

  // Events.

  Status handle(ConnectorEvent event) {
    switch (event.kind) {
      case ConnectorEvent::Kind::kAdmitted:
        return event.dialed ? on_parent_reached(std::move(event)) : on_child_came(std::move(event));
      case ConnectorEvent::Kind::kReadable:
        return is_parent(event.rank) ? on_parent() : on_child(event.rank);
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
    parent_rank_ = event.rank;
    dialing_ = false;
    ++messages_;
    connector_.watch(parent_rank_, parent_.fd());
    if (args_.on_reached) RONDE_RETURN_IF_ERROR(args_.on_reached(parent_));
    if (waiting_ > 0) send(parent_, {});  // else the report goes at once
    return {};
  }

  void on_parent_not_reached(const Status& why) {
    dialing_ = false;
    parent_failure_ = why.message();
    const bool last = way_ + 1 == ways_.size();
    if (disagrees(why.code()) || (last && why.code() == Code::kInvalidArgument)) {
      verdict_ = encode_verdict(advised(why));
    } else if (!last) {
      ++way_;
      dial_parent();
    }
  }

  Status on_child_came(ConnectorEvent event) {
    if (place_.open && event.rank != ways_.back().rank) children_.try_emplace(event.rank);
    const auto found = children_.find(event.rank);
    if (found == children_.end()) return does_not_belong(event.rank, event.peer);
    Child& child = found->second;
    // One that gave up its first connection during the handshake connects again.
    const bool other = child.stream.valid() && !is_same_process(child.who, event.peer);
    if (child.acknowledged || child.reported || other) {
      return came_twice(event.rank, roster_.at(event.rank), event.peer);
    }
    child.stream = std::move(event.stream);
    child.who = std::move(event.peer);
    ++messages_;
    roster_[event.rank] = child.who;
    connector_.watch(event.rank, child.stream.fd());
    if (args_.passed_fd < 0) return {};
    const Status passed =
        send_descriptor(child.stream.fd(), args_.passed_fd, within(kHandshakeLimit));
    return passed.ok() ? passed : went_away(event.rank, child.who, passed.message());
  }

  Status on_parent() {
    do {
      auto bytes = receive(parent_);
      if (!bytes.ok()) {
        connector_.unwatch(parent_rank_);
        verdict_ = encode_verdict(went_away(parent_rank_, parent_who_, bytes.status().message()));
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
      if (!bytes->empty()) RONDE_RETURN_IF_ERROR(take_report(rank, child, *bytes));
    } while (child.stream.has_unread());
    return {};
  }

  Status on_child_gone(int rank, Child& child, const Status& why) {
    connector_.unwatch(rank);
    child.stream = Stream();
    const bool belongs = place_.open ? child.reported && !news_.contains(rank)
                                     : child.acknowledged || args_.passed_fd >= 0;
    if (belongs) return went_away(rank, child.who, why.message());
    roster_.erase(rank);  // it may come again, or through another one
    news_.erase(rank);
    child.acknowledged = child.reported = false;
    return {};
  }

  Status take_report(int rank, Child& child, std::string_view bytes) {
    auto report = decode_wire<Report>(as_bytes(bytes), "report");
    if (!report.ok()) return {Code::kInternal, report.status().message()};
    RONDE_RETURN_IF_ERROR(report->status);
    settle(child);
    if (place_.open) news_[rank] = child.who;
    missing_.insert(report->missing.begin(), report->missing.end());
    unheard_.insert(report->unheard.begin(), report->unheard.end());
    unproven_.insert(report->unproven.begin(), report->unproven.end());
    for (const auto& [other, who] : unpack(report->roster)) {
      RONDE_RETURN_IF_ERROR(welcome(other, who, child));
    }
    return {};
  }

  /// A rank that has come through a child: one behind it, or one that might have come here.
  Status welcome(int rank, const Introduction& who, const Child& through) {
    const auto direct = children_.find(rank);
    const bool behind =
        through.place != nullptr && std::ranges::binary_search(through.place->behind, rank);
    if (direct == children_.end() && !behind) return does_not_belong(rank, who);
    const auto [known, fresh] = roster_.try_emplace(rank, who);
    if (!fresh) return came_twice(rank, known->second, who);
    if (direct != children_.end()) settle(direct->second);
    return {};
  }

  void settle(Child& child) {
    if (!std::exchange(child.reported, true) && !place_.open) --waiting_;
  }

  // The verdict.

  /// The verdict of rank 0.
  Result<Roster> conclude(const Status& failure) {
    RONDE_RETURN_IF_ERROR(failure);
    if (!missing_.empty()) return not_come();
    roster_[args_.identity->rank] = args_.identity->self;
    return std::move(roster_);
  }

  [[nodiscard]] Status not_come() const {
    std::string text =
        fmt::format("{} of {} ranks did not come in time: rank{} {}", missing_.size(),
                    args_.identity->size, missing_.size() == 1 ? "" : "s", list_ranks(missing_));
    if (!unheard_.empty()) {
      text += fmt::format("; nothing was heard of ranks that meet through {}: {}",
                          missing_.size() == 1 ? "it" : "them", list_ranks(unheard_));
    }
    if (!unproven_.empty()) {
      text += fmt::format(
          "; rank{} {} came with another secret: RONDE_SECRET_FILE must hold the same one on all "
          "hosts",
          unproven_.size() == 1 ? "" : "s", list_ranks(unproven_));
    }
    return Status(unproven_.empty() ? Code::kTimeout : Code::kInvalidArgument, text)
        .about({*missing_.begin(), {}, 0});
  }

  /// Reports to the rank above, and waits for the verdict.
  std::string get_verdict(Status failure) {
    if (!parent_.valid() && !verdict_ && now() < deadline_) await_parent();
    if (verdict_) return *verdict_;
    if (!parent_.valid()) return encode_verdict(failure);
    report(failure);
    WaitLimit limit = verdict_limit(failure);
    while (!verdict_) {
      const bool has_news = failure.ok() && !news_.empty();
      auto event = connector_.next(has_news ? limit.within(kTogether) : limit);
      const bool timeout = event.ok() && event->kind == ConnectorEvent::Kind::kTimeout;
      if (timeout && has_news) {
        report(failure);
        continue;
      }
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
    while (dialing_ && !verdict_) {
      auto event = connector_.next(limit);
      if (event.ok() && event->kind == ConnectorEvent::Kind::kTimeout) return;
      if (event.ok()) (void)handle(std::move(*event)).ok();
    }
  }

  [[nodiscard]] WaitLimit verdict_limit(const Status& failure) const {
    if (!failure.ok()) return within(kLastLimit);
    const bool given = args_.verdict_time > Duration::zero();
    return within(given ? args_.verdict_time : args_.timeout + kVerdictSlack);
  }

  [[nodiscard]] Status no_verdict() const {
    const FailedRank parent = parent_who_.of(parent_rank_);
    return Status(Code::kTimeout,
                  fmt::format("rank {} heard no verdict on the rendezvous from {} in time",
                              args_.identity->rank, name_of(parent)))
        .about(parent);
  }

  /// An open place reports each rank once, another one all ranks.
  void report(const Status& failure) {
    send(parent_, encode_wire<std::string>(
                      Report{.status = failure,
                             .missing = {missing_.begin(), missing_.end()},
                             .unheard = {unheard_.begin(), unheard_.end()},
                             .unproven = {unproven_.begin(), unproven_.end()},
                             .roster = pack(place_.open ? std::exchange(news_, {}) : roster_)}));
  }

  void spread(const std::string& verdict) {
    const WaitLimit limit = within(kMessageLimit);
    for (auto& [rank, child] : children_) {
      if (child.stream.valid()) send(child.stream, verdict, limit);
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

  /// Best effort: a rank that does not receive it finds the connection closed.
  void send(Stream& stream, std::string_view message, const WaitLimit& limit) {
    ++messages_;
    (void)send_message(stream, message, limit).ok();
  }
  void send(Stream& stream, std::string_view message) {
    send(stream, message, within(kMessageLimit));
  }

  Result<std::string> receive(Stream& stream) {
    ++messages_;
    return recv_message(stream, most_verdict_bytes(args_.identity->size), within(kMessageLimit));
  }

  TreeRendezvousArgs args_;
  const RendezvousPlace& place_;
  const std::vector<WayUp> ways_;
  const TimePoint deadline_;
  WaitLimit limit_;
  Connector connector_;
  std::map<int, Child> children_;
  std::size_t waiting_ = 0;  ///< Children that have not reported.
  bool time_is_up_ = false;
  std::size_t way_ = 0;  ///< That is tried.
  bool dialing_ = false;
  Stream parent_;
  Introduction parent_who_;
  int parent_rank_ = -1;
  std::string parent_failure_;
  std::optional<std::string> verdict_;  ///< That came from the rank above.
  Roster roster_;                       ///< Of the ranks that meet through this one.
  Roster news_;                         ///< Of an open place: those that are not reported yet.
  std::set<int> missing_;
  std::set<int> unheard_;
  std::set<int> unproven_;
  int messages_ = 0;
};

}  // namespace

TreeResult meet_by_tree(TreeRendezvousArgs args) { return TreeNode(std::move(args)).run(); }

}  // namespace ronde::net
