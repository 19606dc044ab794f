#include "backends/net/control/job_channel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "core/base/log.h"

namespace ronde::net {

JobChannel::JobChannel(JobChannelArgs args)
    : topology_(std::move(args.topology)),
      local_(std::move(args.local)),
      local_events_{
          [this](int from, std::span<const std::byte> frame) { sink_->on_frame(from, frame); },
          [this](const LostRank& lost) { on_host_news(lost); }},
      link_events_{[this](int from, std::span<const std::byte> frame) {
                     if (!is_lost(from)) sink_->on_frame(from, frame);
                   },
                   [this](const LostRank& lost) {
                     if (!leaves_this_host(lost)) lose(lost);
                   }},
      limits_(args.limits),
      abort_(std::move(args.abort)),
      observers_(std::move(args.observers)),
      lost_(static_cast<std::size_t>(topology_.size())) {
  if (args.remote) {
    links_ = std::make_unique<TcpLinks>(topology_, std::move(*args.remote), limits_, link_hooks());
  }
  local_->watch().begin_watching(limits_, watch_hooks());
}

Status JobChannel::connect(const WaitLimit& limit) {
  return links_ == nullptr ? Status() : links_->connect(limit);
}

LinkHooks JobChannel::link_hooks() {
  LinkHooks hooks;
  hooks.frame_arrived = [this] { local_->doorbell().ring(); };
  hooks.rank_lost = [this](const LostRank& lost) {
    if (leaves_this_host(lost)) return;
    // Before this rank can fail and leave. The others would take its departure for the cause.
    local_->watch().report(lost);
    abort(lost);
    wake(Sleeper::kBackground);
    wake(Sleeper::kCaller);
  };
  hooks.rank_changed = [this](int rank, const PeerLiveness& peer) { on_change(rank, peer); };
  hooks.link_healed = [this](int rank, const LinkOutage& outage) {
    report_outage(outage, "the control connection with " + name_of(topology_.who(rank)), rank,
                  observers_);
  };
  return hooks;
}

WatchHooks JobChannel::watch_hooks() {
  WatchHooks hooks;
  hooks.on_lost = [this](const LostRank& lost) {
    abort(lost);
    // Its own connections to other hosts close only once the kernel has freed its memory.
    if (links_ != nullptr && lost.rank != topology_.rank) links_->pass_on(lost);
  };
  hooks.on_change = [this](int rank, const PeerLiveness& peer) { on_change(rank, peer); };
  return hooks;
}

/// Called in a thread of the channel, as the driving thread may be waiting for the silent rank.
void JobChannel::on_change(int rank, const PeerLiveness& peer) const {
  const std::string who = name_of(topology_.who(rank));
  if (peer.state() != Life::kFrozen) {
    log(LogLevel::kWarning, "{} runs again after {:.1f} s", who, seconds(peer.last_silence()));
    return;
  }
  const bool local = topology_.same_host(rank, topology_.rank);
  log(LogLevel::kWarning, "{} is {}: nothing was heard of it for {:.1f} s; {}", who,
      local ? "frozen" : "frozen, or the network is cut", seconds(peer.silence()),
      end_of_silence(local));
}

/// "it is given up after 60 s, but only 10 s if its host does not answer"
std::string JobChannel::end_of_silence(bool local) const {
  const std::string then =
      limits_.freeze > Duration::zero()
          ? fmt::format("it is given up after {:.3g} s", seconds(limits_.freeze))
          : std::string("it is waited for");
  const Duration cut = limits_.reconnect > Duration::zero() ? limits_.reconnect : limits_.link;
  if (local || cut == Duration::zero()) return then;
  return fmt::format("{}, but only {:.3g} s if its host does not answer", then, seconds(cut));
}

JobChannel::~JobChannel() {
  close();
  // Closing the sockets in a forked child would end the parent's events, so the child leaks them.
  if (links_ != nullptr && ::getpid() != links_->process()) (void)links_.release();
}

bool JobChannel::is_peer(int rank) const noexcept {
  return rank >= 0 && rank < topology_.size() && rank != topology_.rank;
}

bool JobChannel::leaves_this_host(const LostRank& lost) const {
  return !breaks(lost.how) && topology_.same_host(lost.rank, topology_.rank);
}

bool JobChannel::is_lost(int rank) const noexcept {
  return !lost_[static_cast<std::size_t>(rank)].ok();
}

Status JobChannel::describe(const LostRank& lost) const {
  const FailedRank who = topology_.who(lost.rank);
  const auto what = [&]() -> std::string {
    switch (lost.how) {
      case Loss::kLeft:
        return "has left the job";
      case Loss::kDied:
        return "died";
      case Loss::kClosed:
        return "died or was cut off: its connection closed";
      case Loss::kAltered:
        return fmt::format(
            "is cut off: its connection with {} delivered a record that is not as it was sent: it "
            "was changed, replayed, dropped or moved on the way",
            name_of(topology_.who(lost.reporter)));
      case Loss::kFrozen:
        return fmt::format("was frozen for {:.3g} s and is given up (RONDE_FREEZE_TIMEOUT_SECONDS)",
                           seconds(limits_.freeze));
      case Loss::kUnreachable:
        if (limits_.reconnect == Duration::zero()) break;
        return fmt::format(
            "cannot be reached: there was no connection with host {} for {:.3g} s "
            "(RONDE_RECONNECT_SECONDS)",
            who.host, seconds(limits_.reconnect));
    }
    return fmt::format("cannot be reached: host {} has acknowledged nothing for {:.3g} s", who.host,
                       seconds(limits_.link));
  }();
  return Status(Code::kRankFailure, fmt::format("{} {}", name_of(who), what)).about(who);
}

void JobChannel::lose(const LostRank& lost) {
  if (is_lost(lost.rank)) return;
  const Status reason = describe(lost);
  lost_[static_cast<std::size_t>(lost.rank)] = reason;
  if (breaks(lost.how)) {
    sink_->on_peer_lost(lost.rank, reason);
  } else {
    sink_->on_peer_left(lost.rank, reason);
  }
}

/// A rank of another host that left may still have frames on its way here. Its link's end tells
/// when there are none.
void JobChannel::on_host_news(const LostRank& lost) {
  const bool far = !topology_.same_host(lost.rank, topology_.rank);
  if (far && links_ != nullptr && !breaks(lost.how)) {
    if (links_->is_linked(lost.rank)) return;
    links_->poll(link_events_);
  }
  lose(lost);
}

/// Threads: any.
void JobChannel::abort(const LostRank& lost) const {
  if (abort_ != nullptr && breaks(lost.how)) abort_->abort(describe(lost));
}

Status JobChannel::send(int to, std::span<const std::byte> frame) {
  if (!is_peer(to)) {
    return {Code::kInvalidArgument, fmt::format("no frames can be sent to rank {}", to)};
  }
  if (frame.size() > kMaxFrameBytes) {
    return {Code::kInvalidArgument, fmt::format("a frame of {} bytes; at most {} are allowed",
                                                frame.size(), kMaxFrameBytes)};
  }
  if (closed_.load(std::memory_order_relaxed)) return {Code::kAborted, "the channel is closed"};
  RONDE_RETURN_IF_ERROR(lost_[static_cast<std::size_t>(to)]);
  if (!local_->send(to, frame)) links_->send(to, frame);
  return {};
}

bool JobChannel::poll(ChannelSink& sink) {
  if (closed_.load(std::memory_order_relaxed)) return false;
  sink_ = &sink;
  bool delivered = local_->poll(local_events_);
  if (links_ != nullptr) delivered = links_->poll(link_events_) || delivered;
  return delivered;
}

std::uint32_t JobChannel::prepare_wait(Sleeper who) noexcept {
  return local_->doorbell().prepare(who);
}

void JobChannel::wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept {
  if (closed_.load(std::memory_order_seq_cst)) return;
  local_->doorbell().wait(who, ticket, deadline);
}

void JobChannel::close() noexcept {
  if (closed_.exchange(true, std::memory_order_seq_cst)) return;
  // In this order: once the ranks of this host know, they tell others, which then expect no frame.
  if (links_ != nullptr) links_->close();
  local_->close();
  wake(Sleeper::kBackground);
  wake(Sleeper::kCaller);
}

}  // namespace ronde::net
