#include "backends/net/data/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/net/data/peer.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::net {

namespace {

// Ids of transfers: the direction, the peer, and the transfer's number between the two.

constexpr TransferId make_transfer_id(bool incoming, int peer, std::uint64_t number) noexcept {
  return (number << 25) | (static_cast<TransferId>(peer) << 1) | (incoming ? 1 : 0);
}
constexpr bool is_incoming(TransferId id) noexcept { return (id & 1) != 0; }
constexpr int peer_of(TransferId id) noexcept { return static_cast<int>((id >> 1) & 0xffffff); }
constexpr std::uint64_t number_of(TransferId id) noexcept { return id >> 25; }

// Waits of transports that a token ends, and the reason of their end.

/// A sleep in poll() lasts at most so long; then its token is looked at.
constexpr int kSleepSliceMs = 50;

/// Makes `wake` readable when the token aborts, as long as this lives.
class AbortListening {
 public:
  AbortListening(int wake, const AbortToken& token)
      : token_(token), id_(token.listen([wake] { notify_event(wake); })) {}
  ~AbortListening() { token_.unlisten(id_); }
  AbortListening(const AbortListening&) = delete;
  AbortListening& operator=(const AbortListening&) = delete;

 private:
  const AbortToken& token_;
  const int id_;
};

constexpr std::chrono::milliseconds kVerdictGrace{250};

/// The error of a connection that broke. The control channel soon reports which rank died. It need
/// not be the peer, which may only have left because of it. Blocks: until the token aborts, 250 ms
/// at most.
Status wait_for_verdict(const Status& error, const AbortToken& abort) {
  if (error.code() != Code::kRankFailure) return error;
  const TimePoint deadline = now() + kVerdictGrace;
  while (!abort.poll() && now() < deadline) std::this_thread::sleep_for(kVerdictGrace / 100);
  return abort.aborted() ? abort.status() : error;
}

// News of the connection manager's thread for a transport.

/// A new connection with a rank of the job, or why a dial has brought none.
struct News {
  std::size_t interface = 0;
  Link link;
  Status failure;
};

/// Holds news until the transport takes them. Threads: any.
class Mailbox {
 public:
  /// `wake` becomes readable when something is there. Others may notify it too.
  explicit Mailbox(FileDescriptor wake) noexcept : wake_(std::move(wake)) {}

  void put(News news) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      news_.push_back(std::move(news));
    }
    filled_.store(true);
    notify_event(wake_.get());
  }

  /// For poll().
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }
  /// Takes all. Clears the wake-up where something was there: look at the other reasons for it
  /// afterwards.
  std::vector<News> take() RONDE_EXCLUDES(mutex_) {
    if (!filled_.load(std::memory_order_relaxed)) return {};
    clear_event(wake_.get());
    filled_.store(false);
    const MutexLock lock(mutex_);
    return std::exchange(news_, {});
  }
  /// In a forked child: leaves the connections as they are.
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): closing would end the parent's, too
    (void)std::make_unique<std::vector<News>>(std::move(news_)).release();
  }
  // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

 private:
  const FileDescriptor wake_;
  std::atomic<bool> filled_{false};
  Mutex mutex_;
  std::vector<News> news_ RONDE_GUARDED_BY(mutex_);
};

constexpr std::chrono::milliseconds kLookInterval{100};
// A word that the peer sent before the last message arrived comes within a round trip.
constexpr std::chrono::seconds kLongestRoundTrip{1};

/// Threads: as Transport; the manager's thread too, while no caller waits.
class TcpTransport final : public Transport {
 public:
  TcpTransport(TcpTransportArgs args, FileDescriptor wake)
      : args_(std::move(args)),
        tended_(heals() || is_limited()),
        mailbox_(std::move(wake)),
        peers_(static_cast<std::size_t>(args_.members.size())) {
    const MutexLock lock(mutex_);  // no call of the manager comes before its number is known
    for (std::size_t interface = 0; interface < args_.members.interfaces(); ++interface)
      add_service(interface);
  }

  ~TcpTransport() override {
    if (::getpid() != process_) {
      forget();
      return;
    }
    if (heals()) say_goodbye();
    remove_services();
    if (!heals()) deliver_rest();
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] int rank() const noexcept override { return args_.members.rank(); }
  [[nodiscard]] int size() const noexcept override { return args_.members.size(); }

  Result<TransferId> send(int to, std::span<const std::byte> data) override RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    RONDE_RETURN_IF_ERROR(check_peer(to));
    Peer& with = peer(to);
    const TransferId id = make_transfer_id(false, to, with.post_send(data));
    bool more = false;
    if (broken_.ok()) broken_ = with.connect();
    if (broken_.ok()) broken_ = with.progress_sends(more);
    settle();
    return id;
  }

  Result<TransferId> recv(int from, std::span<std::byte> data) override RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    RONDE_RETURN_IF_ERROR(check_peer(from));
    Peer& with = peer(from);
    const TransferId id = make_transfer_id(true, from, with.post_receive(data));
    if (broken_.ok()) broken_ = with.connect();
    settle();
    return id;
  }

  Status wait(TransferId id, const AbortToken& abort) override RONDE_EXCLUDES(mutex_) {
    const auto is_done = [this, id]() RONDE_REQUIRES(mutex_) { return done(id); };
    bool woken = false;
    Sleep next;
    while (true) {
      if (std::exchange(woken, false)) clear_event(mailbox_.wake());
      if (const auto end = try_to_finish(is_done, next))
        return end->ok() ? *end : verdict(*end, abort);
      if (abort.poll()) {
        const MutexLock lock(mutex_);
        if (broken_.ok()) broken_ = abort.status();
      } else if (!next.ready) {
        const AbortListening listening(mailbox_.wake(), abort);
        woken = sleep(next);
      }
    }
  }

 private:
  /// The descriptors that a caller sleeps on.
  struct Sleep {
    std::vector<pollfd> entries;
    bool ready = false;  // nothing to sleep for
  };

  [[nodiscard]] bool heals() const noexcept { return args_.window_bytes > 0; }
  [[nodiscard]] bool is_limited() const noexcept {
    return args_.between_hosts && args_.manager->limited();
  }

  /// The connections of each interface are a service, so that both ends know which interface it is.
  void add_service(std::size_t interface) {
    Identity identity = args_.identity;
    if (interface > 0) identity.context += fmt::format("\ninterface {}", interface);
    ConnectionManager::Service service{
        .identity = std::move(identity),
        .on_link =
            [this, interface](Link link) {
              mailbox_.put({interface, std::move(link), Status()});
            },
        .on_failure =
            [this, interface](int rank, const Status& why) {
              mailbox_.put({interface, Link{.rank = rank, .stream = Stream()}, why});
            }};
    if (args_.between_hosts) {
      service.tend = [this](int) { return tend(); };
      service.idle = {.least_recent_use = [this, interface] { return least_recent_use(interface); },
                      .end_least_recent = [this, interface] { end_least_recent(interface); }};
    }
    services_.push_back(args_.manager->add(std::move(service)));
  }

  void remove_services() {
    for (const auto service : services_) args_.manager->remove(service);
  }

  /// A forked child says no goodbye on its parent's connections.
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    mailbox_.forget();
    for (auto& each : peers_) (void)each.release();
  }

  /// A peer may ask to end a connection just before this side closes it. Its word would reset the
  /// connection, and what has not been delivered would be lost. The manager knows this no more.
  void deliver_rest() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    if (!is_limited() || !broken_.ok()) return;
    const TimePoint limit = now() + kLongestRoundTrip;
    for (Peer* each : used_) {
      while (now() < limit && !each->drain()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  /// A caller has used connections.
  void settle() {
    if (tended_) args_.manager->settle();
  }

  // For the manager's thread.

  /// True with the mutex locked. Another thread may hold it for long: then a later call counts.
  bool try_lock() RONDE_TRY_ACQUIRE(true, mutex_) {
    if (mutex_.try_lock()) return true;
    settle();
    return false;
  }

  /// A caller that waits does all that itself: it must see the wake-up of its mail.
  TimePoint tend() RONDE_EXCLUDES(mutex_) {
    if (!tended_ || !try_lock()) return kForever;
    TimePoint next = kForever;
    if (!caller_waits_ && broken_.ok()) next = heals() ? drive() : tend_idle();
    mutex_.unlock();
    return next;
  }

  TimePoint tend_idle() RONDE_REQUIRES(mutex_) {
    broken_ = take_mail();
    if (broken_.ok()) {
      for (Peer* each : used_) each->tend();
    }
    return kForever;
  }

  /// One turn of connections that heal.
  TimePoint drive() RONDE_REQUIRES(mutex_) {
    bool more = false;
    broken_ = progress(more);
    if (!broken_.ok()) {
      withdraw();
      return kForever;
    }
    bool looks = false;
    for (const Peer* each : used_) {
      more = more || each->has_unread();
      looks = looks || each->needs_looks();
      each->for_each_wait(
          [this](int fd, int events) { args_.manager->watch(services_.front(), fd, events); });
    }
    if (more) return now();
    return looks ? now() + kLookInterval : kForever;
  }

  /// Nothing moves any more. The peers see that by their connections, old and new ones.
  void withdraw() RONDE_REQUIRES(mutex_) {
    remove_services();
    for (Peer* each : used_) each->close();
  }

  Peer* least_recently_used(std::size_t interface) RONDE_REQUIRES(mutex_) {
    Peer* least = nullptr;
    TimePoint least_use = kForever;
    for (Peer* each : used_) {
      const TimePoint use = each->idle_since(interface);
      if (use < least_use) least = each;
      least_use = std::min(use, least_use);
    }
    return broken_.ok() ? least : nullptr;
  }

  TimePoint least_recent_use(std::size_t interface) RONDE_EXCLUDES(mutex_) {
    if (!try_lock()) return kForever;
    const Peer* const least = least_recently_used(interface);
    const TimePoint use = least == nullptr ? kForever : least->idle_since(interface);
    mutex_.unlock();
    return use;
  }

  void end_least_recent(std::size_t interface) RONDE_EXCLUDES(mutex_) {
    if (!try_lock()) return;
    if (Peer* const least = least_recently_used(interface)) {
      least->rest(interface);
      settle();
    }
    mutex_.unlock();
  }

  // Mail.

  Status take_mail() RONDE_REQUIRES(mutex_) {
    for (News& each : mailbox_.take()) {
      const int rank = args_.members.position(each.link.rank);
      if (!args_.members.is_peer(rank)) continue;
      if (each.failure.ok()) {
        peer(rank).take_link(each.interface, std::move(each.link));
      } else {
        RONDE_RETURN_IF_ERROR(peer(rank).take_failure(each.interface, each.failure));
      }
    }
    return {};
  }

  // Transfers.

  [[nodiscard]] Status check_peer(int rank) const RONDE_REQUIRES(mutex_) {
    return told_.ok() ? args_.members.check_peer(rank) : told_;
  }

  Peer& peer(int rank) RONDE_REQUIRES(mutex_) {
    auto& slot = peers_[static_cast<std::size_t>(rank)];
    if (slot == nullptr) {
      slot = std::make_unique<Peer>(rank, needs_);
      used_.push_back(slot.get());
    }
    return *slot;
  }

  [[nodiscard]] bool done(TransferId id) const RONDE_REQUIRES(mutex_) {
    const Peer& with = *peers_[static_cast<std::size_t>(peer_of(id))];
    return is_incoming(id) ? with.received(number_of(id)) : with.sent(number_of(id));
  }

  /// Ok: it is done. Nothing: sleep first.
  std::optional<Status> try_to_finish(auto is_done, Sleep& next) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    caller_waits_ = true;
    bool more = false;
    if (broken_.ok() && !is_done()) broken_ = progress(more);
    const bool finished = is_done();
    if (finished || !broken_.ok()) {
      caller_waits_ = false;
      if (!broken_.ok() && heals()) withdraw();
      settle();
      return finished ? Status() : broken_;
    }
    prepare(next, more);
    return std::nullopt;
  }

  /// Why a connection broke, as the control channel knows it, or else as it looks from here.
  Status verdict(const Status& error, const AbortToken& abort) RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!told_.ok()) return told_;
    }
    const Status told = wait_for_verdict(error, abort);
    const MutexLock lock(mutex_);
    if (told_.ok()) told_ = told;
    return told_;
  }

  /// One turn of all peers.
  Status progress(bool& more) RONDE_REQUIRES(mutex_) {
    RONDE_RETURN_IF_ERROR(take_mail());
    for (Peer* each : used_) RONDE_RETURN_IF_ERROR(each->progress(more));
    return now() >= looked_ + kLookInterval ? look() : Status();
  }

  Status look() RONDE_REQUIRES(mutex_) {
    looked_ = now();
    for (Peer* each : used_) RONDE_RETURN_IF_ERROR(each->look(looked_));
    return {};
  }

  /// Lists what may move next. `more`: more may move now.
  void prepare(Sleep& next, bool more) const RONDE_REQUIRES(mutex_) {
    next.ready = more;
    next.entries.clear();
    if (more) return;
    next.entries.push_back({mailbox_.wake(), POLLIN, 0});
    for (const Peer* each : used_) {
      next.ready = next.ready || each->has_unread();
      each->for_each_wait([&](int fd, int events) {
        next.entries.push_back({fd, static_cast<short>(events), 0});
      });
    }
  }

  /// True where the wake-up has come.
  static bool sleep(Sleep& next) {
    ::poll(next.entries.data(), next.entries.size(), kSleepSliceMs);
    return next.entries.front().revents != 0;
  }

  /// The peers may still lack what was sent: it goes with this process's connections.
  void say_goodbye() RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      for (Peer* each : used_) {
        if (each->was_connected()) each->post_goodbye();
      }
    }
    const auto may_end = [this]() RONDE_REQUIRES(mutex_) {
      return std::ranges::all_of(used_, [](const Peer* each) { return each->may_end(); });
    };
    const TimePoint deadline = now() + args_.limit;
    Sleep next;
    while (now() < deadline && !try_to_finish(may_end, next)) {
      if (args_.abort && args_.abort->aborted()) return;
      if (!next.ready && sleep(next)) clear_event(mailbox_.wake());
    }
  }

  const TcpTransportArgs args_;
  const pid_t process_ = ::getpid();
  const bool tended_;                                   // by the manager's thread
  Mailbox mailbox_;                                     // its wake-up is also for aborts
  std::vector<ConnectionManager::ServiceId> services_;  // by interface
  const PeerNeeds needs_{args_, services_};
  Mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_ RONDE_GUARDED_BY(mutex_);  // by rank; null: never used
  std::vector<Peer*> used_ RONDE_GUARDED_BY(mutex_);
  Status broken_ RONDE_GUARDED_BY(mutex_);  ///< Nothing moves any more.
  Status told_ RONDE_GUARDED_BY(mutex_);    ///< The error that wait() has returned.
  TimePoint looked_ RONDE_GUARDED_BY(mutex_);
  bool caller_waits_ RONDE_GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(TcpTransportArgs args) {
  FileDescriptor wake = make_event();
  if (!wake.valid()) return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(std::move(args), std::move(wake)));
}

}  // namespace ronde::net
