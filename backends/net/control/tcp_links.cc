#include "backends/net/control/tcp_links.h"

#include <poll.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "backends/net/connection/tcp_progress.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

constexpr std::chrono::milliseconds kMendLimit{300};
constexpr std::chrono::seconds kInterfaceLimit{2};
constexpr std::chrono::seconds kGoodbyeLimit{1};

bool heals(const LossLimits& limits) { return limits.reconnect > Duration::zero(); }

/// The limits for each link.
LossLimits limits_of_link(LossLimits limits) {
  if (heals(limits)) limits.link = kSilentAfter;
  return limits;
}

}  // namespace

void LinkDialer::dial(int rank, LinkPeer& peer, TimePoint deadline) {
  if (std::exchange(peer.dialing, true)) return;
  const auto& outage = peer.outages.lasting();
  peer.dial_limit = outage ? outage->began + reconnect_ : deadline;
  if (outage) ++interface_;
  dial_over_an_interface(rank, peer);
}

bool LinkDialer::try_next_interface(int rank, LinkPeer& peer, const Status& why) {
  if (why.code() != Code::kTimeout || now() >= peer.dial_limit) return false;
  ++interface_;
  dial_over_an_interface(rank, peer);
  return true;
}

/// Each interface has some time, where there are several.
void LinkDialer::dial_over_an_interface(int rank, const LinkPeer& peer) {
  TimePoint deadline = peer.dial_limit;
  if (interfaces_ > 1) deadline = std::min(deadline, now() + kInterfaceLimit);
  dial_(rank, routes_.to(rank, interface_ % interfaces_), deadline);
}

TcpLinks::TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks)
    : topology_(topology),
      args_(std::move(args)),
      limits_(limits),
      hooks_(std::move(hooks)),
      sink_{[this](TcpLink& link) { on_begin(link); },
            [this](TcpLink& from, const FrameHead& head, std::span<const std::byte> bytes) {
              on_message(from, head, bytes);
            },
            [this](TcpLink& link) { on_end(link); }},
      peers_(topology, heals(limits)),
      dialer_(args_.routes, limits.reconnect,
              [this](int rank, const Route& route, TimePoint deadline) {
                args_.manager->dial(service_, rank, route, deadline);
              }),
      first_links_(topology.rank) {
  arm_timer();
  {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] {
      name_this_thread("ronde-tcp");
      const auto work = asio::make_work_guard(io_);
      io_.run();
    });
  }
  const MutexLock lock(mutex_);  // of the thread, which may dial
  service_ = args_.manager->add(
      {.party = args_.party,
       .on_link =
           [this](Link link) {
             asio::post(io_, [this, link = std::move(link)]() mutable { adopt(std::move(link)); });
           },
       .on_failure =
           [this](int rank, const Status& why) {
             asio::post(io_, [this, rank, why] { on_dial_failure(rank, why); });
           }});
}

TcpLinks::~TcpLinks() { close(); }

Status TcpLinks::connect(const WaitLimit& limit) {
  {
    const MutexLock lock(mutex_);
    for (const int rank : peers_.unlinked()) {
      if (rank < topology_.rank) dial(rank, limit.deadline());
    }
  }
  while (true) {
    clear_event(changed_.get());
    {
      const MutexLock lock(mutex_);
      if (const auto outcome = first_links_.outcome(peers_)) return *outcome;
    }
    if (wait_for(changed_.get(), POLLIN, limit)) continue;
    const MutexLock lock(mutex_);
    return first_links_.time_out(peers_);
  }
}

void TcpLinks::send(int to, std::span<const std::byte> frame) {
  const MutexLock lock(mutex_);
  if (!peers_.send(to, frame)) dial(to, now() + args_.timeout);
}

void TcpLinks::adopt(Link link) {
  const bool dialed = link.dialed;
  {
    const MutexLock lock(mutex_);
    if (dialed) peers_.of(link.rank).dialing = false;
    if (dialed && !peers_.of(link.rank).session.needs_link())
      return notify();  // the peer has dialed too; it uses that one
  }
  TcpLink& made = links_.emplace_back(io_, std::move(link), limits_of_link(limits_), sink_);
  made.start();
  if (dialed) on_begin(made);
}

void TcpLinks::on_begin(TcpLink& link) {
  const MutexLock lock(mutex_);
  peers_.begin(link);
  notify();
}

void TcpLinks::on_message(TcpLink& from, const FrameHead& head, std::span<const std::byte> bytes) {
  if (!take_number(from, head, bytes.size())) return;
  if (is_numbered(head.kind)) return take_numbered(from, head.kind, bytes);
  const MutexLock lock(mutex_);
  switch (head.kind) {
    case FrameKind::kBegin:
      peers_.greet(from, head.number);
      return notify();
    case FrameKind::kHeartbeat:
      peers_.of(from.rank()).watched = true;
      return;
    case FrameKind::kGoodbye:
    case FrameKind::kClose:
    case FrameKind::kSpare:
      return peers_.answer(from);
    default:
      return;
  }
}

/// False if the message is known. A peer that counts wrongly is not the one that was linked.
bool TcpLinks::take_number(TcpLink& from, const FrameHead& head, std::size_t bytes) {
  bool right = false;
  {
    const MutexLock lock(mutex_);
    if (is_numbered(head.kind)) {
      if (peers_.take(from, head.number, bytes)) return true;
      right = !peers_.of(from.rank()).session.is_ahead(head.number);
    } else if (peers_.of(from.rank()).session.confirm(head.number)) {
      return true;
    }
  }
  if (!right) from.end(Loss::kAltered);
  return false;
}

void TcpLinks::take_numbered(TcpLink& from, FrameKind kind, std::span<const std::byte> bytes) {
  if (kind == FrameKind::kData) {
    items_.put({.from = from.rank(), .frame = {bytes.begin(), bytes.end()}, .lost = {}});
    return hooks_.frame_arrived();
  }
  if (const auto lost = read_loss(bytes, topology_)) learn(*lost, &from);
}

void TcpLinks::on_end(TcpLink& link) {
  const int rank = link.rank();
  std::optional<LostRank> lost;
  bool known = false;
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    const LinkPeer& peer = peers_.of(rank);
    const bool was_broken = peer.outages.lasting().has_value();
    lost = peers_.end(link, now());
    if (peer.outages.lasting() && !was_broken && rank < topology_.rank) dial(rank, {});
    known = peers_.is_lost(rank);
    is_news = !peer.closing;
    notify();
  }
  if (!lost) return;
  if (known) return report(*lost);
  if (is_news) return lose(lost->rank, lost->how);
  items_.put({.from = lost->rank, .frame = {}, .lost = lost});
  hooks_.frame_arrived();
}

/// A process that refuses a link has ended. If it has died, the news is faster than this.
void TcpLinks::on_dial_failure(int rank, const Status& why) {
  bool broke = false;
  {
    const MutexLock lock(mutex_);
    LinkPeer& peer = peers_.of(rank);
    const bool needed = peer.session.needs_link();
    if (needed && dialer_.try_next_interface(rank, peer, why)) return;
    peer.dialing = false;
    notify();
    if (!needed) return;
    if (peers_.ends_now(peer)) return peer.give_up();
    broke = peer.outages.lasting().has_value();
    if (first_links_.under_way()) return first_links_.fail(rank, why);
  }
  const Loss ended = broke ? Loss::kClosed : Loss::kLeft;
  lose(rank, why.code() == Code::kRankFailure ? ended : Loss::kUnreachable);
}

/// This rank has found that. A host that does not answer takes all its ranks along.
void TcpLinks::lose(int rank, Loss how) {
  if (how != Loss::kUnreachable) return learn({rank, how, topology_.rank}, nullptr);
  for (const int each : topology_.host_ranks(rank)) learn({each, how, topology_.rank}, nullptr);
}

void TcpLinks::learn(const LostRank& lost, const TcpLink* from) {
  {
    const MutexLock lock(mutex_);
    if (!spread(lost, from) || peers_.of(lost.rank).held) return;
  }
  report(lost);
  if (breaks(lost.how)) mend_tree();
}

void TcpLinks::pass_on(const LostRank& lost) {
  {
    const MutexLock lock(mutex_);
    if (!spread(lost, nullptr)) return;
  }
  if (breaks(lost.how)) asio::post(io_, [this] { mend_tree(); });
}

/// False if the loss is known.
bool TcpLinks::spread(const LostRank& lost, const TcpLink* from) {
  if (!peers_.learn(lost, from)) return false;
  members_changed_.store(true);
  notify();
  return true;
}

void TcpLinks::report(const LostRank& lost) {
  items_.put({.from = lost.rank, .frame = {}, .lost = lost});
  hooks_.rank_lost(lost);
}

/// Dials those that are to be watched now and have no link.
void TcpLinks::mend_tree() {
  members_changed_.store(false);
  const MutexLock lock(mutex_);
  for (const int rank : peers_.mend()) dial(rank, now() + args_.timeout);
  notify();
}

void TcpLinks::arm_timer() {
  timer_.expires_after(kBeatInterval);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) on_timer();
  });
}

void TcpLinks::on_timer() {
  if (members_changed_.load()) mend_tree();
  std::erase_if(links_, [](const TcpLink& link) { return link.ended(); });
  for (TcpLink& link : links_) {
    if (link.begun()) look_at(link);
  }
  heal();
  arm_timer();
}

void TcpLinks::look_at(TcpLink& link) {
  const bool is_watched = [&] {
    const MutexLock lock(mutex_);
    return peers_.of(link.rank()).watched;
  }();
  if (link.look(is_watched, now())) hooks_.rank_changed(link.rank(), link.liveness());
  if (link.ended()) return;
  const MutexLock lock(mutex_);
  peers_.beat(link);
}

/// Dials again where a link has broken, and reports those that work again.
void TcpLinks::heal() {
  std::vector<std::pair<int, LinkOutage>> ended;
  {
    const MutexLock lock(mutex_);
    for (const int rank : peers_.broken()) dial(rank, {});
    ended = peers_.take_ended_outages();
  }
  for (const auto& [rank, outage] : ended) hooks_.link_healed(rank, outage);
}

/// Ends waits for changes of links.
void TcpLinks::notify() {
  links_changed_.notify_all();
  notify_event(changed_.get());
}

/// On the links that end now.
void TcpLinks::send_goodbyes() {
  const MutexLock lock(mutex_);
  for (TcpLink& link : links_) {
    if (link.begun() && !link.ended()) peers_.send_goodbye(link);
  }
}

/// Ends those links, each by a goodbye and its answer. Peers that need another link for that have
/// the time of an outage.
void TcpLinks::leave(Leaving part) {
  peers_.leave(part);
  asio::post(io_, [this] { send_goodbyes(); });
  const TimePoint start = now();
  const auto deadline = [&]() RONDE_REQUIRES(mutex_) {
    return start + (peers_.job_is_broken() ? kGoodbyeLimit
                                           : std::max<Duration>(kGoodbyeLimit, limits_.reconnect));
  };
  while (!peers_.all_ended() && links_changed_.wait_until(mutex_, deadline())) {
  }
}

void TcpLinks::close() noexcept {
  if (::getpid() != process_ || std::exchange(closed_, true)) return;
  {
    const MutexLock lock(mutex_);
    const TimePoint deadline = now() + kMendLimit;
    while (peers_.is_mending() && links_changed_.wait_until(mutex_, deadline)) {
    }
    // In this order: the news that this rank has left spreads from those that watch it. By then
    // all others have its last frames.
    leave(Leaving::kUnwatched);
    leave(Leaving::kAll);
  }
  args_.manager->remove(service_);
  io_.stop();
  thread_.join();
}

}  // namespace ronde::net
