#include "backends/net/channel/tcp_links.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "backends/net/channel/link_items.h"
#include "backends/net/channel/link_peers.h"
#include "backends/net/channel/tcp_link.h"
#include "core/base/os/file_descriptor.h"
#include "core/base/thread_name.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kMendLimit{1};
constexpr std::chrono::seconds kGoodbyeLimit{1};

}  // namespace

class TcpLinks::Impl {
 public:
  Impl(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks);
  ~Impl();

  Status connect(const WaitLimit& limit) RONDE_EXCLUDES(mutex_);
  void send(int to, std::span<const std::byte> frame) RONDE_EXCLUDES(mutex_);
  void pass_on(const LostRank& lost) RONDE_EXCLUDES(mutex_);
  bool is_linked(int rank) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return peers_.is_open(rank);
  }
  bool deliver(const LinkEvents& events) { return items_.deliver(events); }
  void close() noexcept RONDE_EXCLUDES(mutex_);
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return items_.arrived(); }
  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  void run() noexcept;
  void adopt(Link link) RONDE_EXCLUDES(mutex_);
  void on_begin(TcpLink& link) RONDE_EXCLUDES(mutex_);
  void on_message(TcpLink& from, LinkMessage kind, std::span<const std::byte> bytes)
      RONDE_EXCLUDES(mutex_);
  void on_end(TcpLink& link, Loss how) RONDE_EXCLUDES(mutex_);
  void on_dial_failure(int rank, const Status& why) RONDE_EXCLUDES(mutex_);
  void dial(int rank, TimePoint deadline) RONDE_REQUIRES(mutex_);
  void learn(const LostRank& lost, const TcpLink* from) RONDE_EXCLUDES(mutex_);
  void lose(int rank, Loss how) RONDE_EXCLUDES(mutex_);
  bool spread(const LostRank& lost, const TcpLink* from) RONDE_REQUIRES(mutex_);
  void report(const LostRank& lost) RONDE_EXCLUDES(mutex_);
  void mend_tree() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<Status> connected() RONDE_EXCLUDES(mutex_);
  [[nodiscard]] Status not_connected(Code code, const std::string& ranks, int first) const;
  void notify() RONDE_REQUIRES(mutex_);
  void say_goodbye() RONDE_EXCLUDES(mutex_);
  void leave(Leaving part) RONDE_REQUIRES(mutex_);
  void arm_timer();
  void on_timer();
  void look_at(std::size_t index, TcpLink& link) RONDE_EXCLUDES(mutex_);
  [[nodiscard]] bool is_watched(int rank) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return peers_.is_watched(rank);
  }

  const pid_t process_ = ::getpid();
  const Topology& topology_;
  const LinkArgs args_;
  const LinkHooks hooks_;
  const LinkSink sink_;
  const FileDescriptor changed_ = make_event();  // for connect()
  ConnectionManager::ServiceId service_ = 0;
  asio::io_context io_{1};
  LinkItems items_;
  std::atomic<bool> members_changed_{false};
  // I/O thread only.
  asio::steady_timer timer_{io_};
  std::vector<std::unique_ptr<TcpLink>> links_;  // also those that have ended
  SilenceWatch silent_;                          // ranks that do not run; by position in `links_`
  SilenceWatch unreachable_;                     // hosts that do not acknowledge; likewise
  // Guarded.
  Mutex mutex_;
  CondVar links_changed_;
  LinkPeers peers_ RONDE_GUARDED_BY(mutex_);
  bool connecting_ RONDE_GUARDED_BY(mutex_) = true;
  Status failure_ RONDE_GUARDED_BY(mutex_);  // of connecting
  bool closed_ = false;                      // the closing thread
  std::thread thread_;
};

TcpLinks::Impl::Impl(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks)
    : topology_(topology),
      args_(std::move(args)),
      hooks_(std::move(hooks)),
      sink_{[this](TcpLink& link) { on_begin(link); },
            [this](TcpLink& from, LinkMessage kind, std::span<const std::byte> bytes) {
              on_message(from, kind, bytes);
            },
            [this](TcpLink& link, Loss how) { on_end(link, how); }},
      silent_(0, kBeatInterval, limits.freeze),
      unreachable_(0, kBeatInterval, limits.link),
      peers_(topology) {
  arm_timer();
  {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
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

TcpLinks::Impl::~Impl() { close(); }

void TcpLinks::Impl::run() noexcept {
  name_this_thread("ronde-tcp");
  const auto work = asio::make_work_guard(io_);
  io_.run();
}

Status TcpLinks::Impl::connect(const WaitLimit& limit) {
  {
    const MutexLock lock(mutex_);
    for (const int rank : peers_.unlinked()) {
      if (rank < topology_.rank) dial(rank, limit.deadline());
    }
  }
  while (true) {
    clear_event(changed_.get());
    if (const auto ended = connected()) return *ended;
    if (wait_for(changed_.get(), POLLIN, limit)) continue;
    const MutexLock lock(mutex_);
    connecting_ = false;
    const std::set<int> missing = peers_.unlinked();
    return not_connected(Code::kTimeout, fmt::format("{}", fmt::join(missing, ", ")),
                         *missing.begin());
  }
}

/// How connecting has ended; nothing while it goes on.
std::optional<Status> TcpLinks::Impl::connected() {
  const MutexLock lock(mutex_);
  const std::set<int> missing = peers_.unlinked();
  for (const int rank : missing) {
    if (!failure_.ok() || !peers_.is_lost(rank)) continue;
    failure_ = not_connected(Code::kRankFailure, fmt::format("{} (it has ended)", rank), rank);
  }
  if (failure_.ok() && !missing.empty()) return std::nullopt;
  connecting_ = false;
  return failure_;
}

Status TcpLinks::Impl::not_connected(Code code, const std::string& ranks, int first) const {
  return Status(code, fmt::format("rank {} could not connect with rank {} in time", topology_.rank,
                                  ranks))
      .about({first, {}, 0});
}

void TcpLinks::Impl::dial(int rank, TimePoint deadline) {
  if (!peers_.begin_dial(rank)) return;
  const auto endpoint = parse_endpoint(args_.addresses[static_cast<std::size_t>(rank)]);
  if (endpoint.ok()) return args_.manager->dial(service_, rank, *endpoint, deadline);
  asio::post(io_, [this, rank, why = endpoint.status()] { on_dial_failure(rank, why); });
}

void TcpLinks::Impl::send(int to, std::span<const std::byte> frame) {
  const MutexLock lock(mutex_);
  if (!peers_.send(to, frame)) dial(to, now() + args_.timeout);
}

void TcpLinks::Impl::adopt(Link link) {
  const bool dialed = link.dialed;
  {
    const MutexLock lock(mutex_);
    if (dialed) peers_.dialed(link.rank);
    if (dialed && peers_.has_link(link.rank))
      return notify();  // the peer has dialed too; it uses that one
  }
  silent_.add();
  unreachable_.add();
  TcpLink& made = *links_.emplace_back(std::make_unique<TcpLink>(io_, std::move(link), sink_));
  made.start();
  if (!dialed) return;
  made.send(LinkMessage::kBegin, {});
  on_begin(made);
}

void TcpLinks::Impl::on_begin(TcpLink& link) {
  const MutexLock lock(mutex_);
  peers_.begin(link);
  notify();
}

void TcpLinks::Impl::on_message(TcpLink& from, LinkMessage kind, std::span<const std::byte> bytes) {
  switch (kind) {
    case LinkMessage::kFrame:
      items_.put({.from = from.rank(), .frame = {bytes.begin(), bytes.end()}, .lost = {}});
      return hooks_.frame_arrived();
    case LinkMessage::kLost:
      if (const auto lost = read_loss(bytes, topology_)) learn(*lost, &from);
      return;
    case LinkMessage::kHeartbeat: {
      const MutexLock lock(mutex_);
      return peers_.watch(from.rank());
    }
    default:
      return;
  }
}

void TcpLinks::Impl::on_end(TcpLink& link, Loss how) {
  std::optional<LostRank> lost;
  bool known = false;
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    lost = peers_.end(link, how);
    known = peers_.is_lost(link.rank());
    is_news = !peers_.is_closing(link.rank());
    notify();
  }
  if (!lost) return;
  if (known) return report(*lost);
  if (is_news) return lose(lost->rank, lost->how);
  items_.put({.from = lost->rank, .frame = {}, .lost = lost});
  hooks_.frame_arrived();
}

/// A process that refuses a link has ended. If it has died, the news is faster than this.
void TcpLinks::Impl::on_dial_failure(int rank, const Status& why) {
  {
    const MutexLock lock(mutex_);
    peers_.dialed(rank);
    notify();
    if (peers_.has_link(rank)) return;
    if (connecting_) {
      failure_ = not_connected(why.code(), fmt::format("{} ({})", rank, why.message()), rank);
      return;
    }
  }
  lose(rank, why.code() == Code::kRankFailure ? Loss::kLeft : Loss::kUnreachable);
}

/// This rank has found that. A host that does not answer takes all its ranks along.
void TcpLinks::Impl::lose(int rank, Loss how) {
  if (how != Loss::kUnreachable) return learn({rank, how, topology_.rank}, nullptr);
  for (const int each : topology_.host_ranks(rank)) learn({each, how, topology_.rank}, nullptr);
}

void TcpLinks::Impl::learn(const LostRank& lost, const TcpLink* from) {
  {
    const MutexLock lock(mutex_);
    if (!spread(lost, from) || !peers_.may_report(lost.rank)) return;
  }
  report(lost);
  if (breaks(lost.how)) mend_tree();
}

void TcpLinks::Impl::pass_on(const LostRank& lost) {
  {
    const MutexLock lock(mutex_);
    if (!spread(lost, nullptr)) return;
  }
  if (breaks(lost.how)) asio::post(io_, [this] { mend_tree(); });
}

/// False if the loss is known.
bool TcpLinks::Impl::spread(const LostRank& lost, const TcpLink* from) {
  if (!peers_.learn(lost, from)) return false;
  members_changed_.store(true);
  notify();
  return true;
}

void TcpLinks::Impl::report(const LostRank& lost) {
  items_.put({.from = lost.rank, .frame = {}, .lost = lost});
  hooks_.rank_lost(lost);
}

/// Dials those that are to be watched now and have no link.
void TcpLinks::Impl::mend_tree() {
  members_changed_.store(false);
  const MutexLock lock(mutex_);
  for (const int rank : peers_.mend()) dial(rank, now() + args_.timeout);
  notify();
}

void TcpLinks::Impl::arm_timer() {
  timer_.expires_after(kBeatInterval);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) on_timer();
  });
}

void TcpLinks::Impl::on_timer() {
  if (members_changed_.load()) mend_tree();
  silent_.look(now());
  unreachable_.look(now());
  for (std::size_t index = 0; index < links_.size(); ++index) {
    TcpLink& link = *links_[index];
    if (link.begun() && !link.ended()) look_at(index, link);
  }
  arm_timer();
}

void TcpLinks::Impl::look_at(std::size_t index, TcpLink& link) {
  if (unreachable_.sign(index, link.acknowledged(), Duration::max()) == Silence::kGivenUp) {
    return link.end(Loss::kUnreachable);
  }
  if (!is_watched(link.rank())) return;
  const Silence what = silent_.sign(index, link.received(), kSuspectAfter);
  if (what == Silence::kGivenUp) return link.end(Loss::kFrozen);
  if (what == Silence::kSuspected) hooks_.rank_silent(link.rank(), what, silent_.silence(index));
  if (what == Silence::kBack) hooks_.rank_silent(link.rank(), what, silent_.silence_before(index));
  link.send(LinkMessage::kHeartbeat, {});
}

/// Ends waits for changes of links.
void TcpLinks::Impl::notify() {
  links_changed_.notify_all();
  notify_event(changed_.get());
}

/// On the links that end now.
void TcpLinks::Impl::say_goodbye() {
  const MutexLock lock(mutex_);
  for (const auto& link : links_) {
    if (!link->begun() || link->ended() || !peers_.ends_now(link->rank())) continue;
    link->send(peers_.farewell(*link), {});
  }
}

/// Ends those links, each by a goodbye and its answer.
void TcpLinks::Impl::leave(Leaving part) {
  peers_.leave(part);
  asio::post(io_, [this] { say_goodbye(); });
  const TimePoint deadline = now() + kGoodbyeLimit;
  while (!peers_.all_ended() && links_changed_.wait_until(mutex_, deadline)) {
  }
}

void TcpLinks::Impl::close() noexcept {
  if (std::exchange(closed_, true)) return;
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

TcpLinks::TcpLinks(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks)
    : impl_(std::make_unique<Impl>(topology, std::move(args), limits, std::move(hooks))),
      arrived_(&impl_->arrived()) {}

TcpLinks::~TcpLinks() {
  // A forked child shares the parent's epoll instance. Closing the sockets there would end the
  // parent's events, so the child leaks the memory.
  if (::getpid() != impl_->process()) (void)impl_.release();
}

Status TcpLinks::connect(const WaitLimit& limit) { return impl_->connect(limit); }

void TcpLinks::send(int to, std::span<const std::byte> frame) { impl_->send(to, frame); }

void TcpLinks::pass_on(const LostRank& lost) { impl_->pass_on(lost); }

bool TcpLinks::is_linked(int rank) const { return impl_->is_linked(rank); }

bool TcpLinks::poll_slowly(const LinkEvents& events) { return impl_->deliver(events); }

void TcpLinks::close() noexcept {
  if (::getpid() == impl_->process()) impl_->close();
}

}  // namespace ronde::net
