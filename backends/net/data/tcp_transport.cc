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
#include "core/base/thread_name.h"

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

/// Holds new connections and failed dials until the transport takes them. Threads: any.
class Mailbox {
 public:
  struct Arrival {
    std::size_t interface = 0;
    Link link;
  };
  struct Failure {
    std::size_t interface = 0;
    int rank = -1;  ///< Of the job.
    Status why;
  };
  struct Mail {
    std::vector<Arrival> links;
    std::vector<Failure> failures;
  };

  /// `wake` becomes readable when something is there. Others may notify it too.
  explicit Mailbox(FileDescriptor wake) noexcept : wake_(std::move(wake)) {}

  void put(Arrival arrival) RONDE_EXCLUDES(mutex_);
  void put(Failure failure) RONDE_EXCLUDES(mutex_);

  /// For poll().
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }
  /// Takes all. Clears the wake-up where something was there: look at the other reasons for it
  /// afterwards.
  Mail take() RONDE_EXCLUDES(mutex_);
  /// In a forked child: leaves the connections as they are.
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): closing would end the parent's, too
    (void)std::make_unique<Mail>(std::move(mail_)).release();
  }
  // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

 private:
  const FileDescriptor wake_;
  std::atomic<bool> filled_{false};
  Mutex mutex_;
  Mail mail_ RONDE_GUARDED_BY(mutex_);
};

void Mailbox::put(Arrival arrival) {
  {
    const MutexLock lock(mutex_);
    mail_.links.push_back(std::move(arrival));
  }
  filled_.store(true);
  notify_event(wake_.get());
}

void Mailbox::put(Failure failure) {
  {
    const MutexLock lock(mutex_);
    mail_.failures.push_back(std::move(failure));
  }
  filled_.store(true);
  notify_event(wake_.get());
}

Mailbox::Mail Mailbox::take() {
  if (!filled_.load(std::memory_order_relaxed)) return {};
  clear_event(wake_.get());
  filled_.store(false);
  const MutexLock lock(mutex_);
  return std::exchange(mail_, {});
}

// The thread looks again after this time whether callers still drive. It costs them no wake-up.
constexpr std::chrono::milliseconds kHandOver{10};

// Who drives the links of a transport whose connections heal: a caller that waits, or the
// transport's own thread once no caller has driven them for a while.

/// Threads: any, each with the transport's mutex.
class DriverTurn {
 public:
  /// `wake`: an event; while it is readable, the thread is to leave its sleep in poll(). Not valid:
  /// there is no thread.
  explicit DriverTurn(FileDescriptor wake) : wake_(std::move(wake)) {}

  // For callers.

  /// A caller may add connections that the thread's poll() does not know of.
  void note_call();
  void begin_wait() noexcept { caller_waits_ = true; }
  /// `broken`: nothing moves any more.
  void end_wait(bool broken);
  [[nodiscard]] bool caller_waits() const noexcept { return caller_waits_; }
  /// The thread drives from now on, whatever callers do.
  void leave();
  /// The thread ends.
  void stop();
  /// Sleeps until the thread has driven, or for that time.
  void wait_for_thread(Mutex& mutex, Duration limit) RONDE_REQUIRES(mutex) {
    turn_->wait_until(mutex, now() + limit);
  }

  // For the thread.

  /// False if no caller has driven the links for a while, or at the end. Sleeps a while otherwise.
  bool stay_away(Mutex& mutex, bool broken) RONDE_REQUIRES(mutex);
  [[nodiscard]] bool stopped() const noexcept { return stop_; }
  /// The thread begins its turn.
  void begin() { clear_event(wake_.get()); }
  /// Its turn has ended; it polls next, if it does.
  void end(bool polls);
  /// For its poll().
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }

  /// In a forked child: a thread of the parent may wait there.
  void forget() noexcept { (void)turn_.release(); }

 private:
  void rouse();

  const FileDescriptor wake_;
  std::unique_ptr<CondVar> turn_ = std::make_unique<CondVar>();
  bool caller_waits_ = false;
  bool thread_rests_ = false;  // until a caller stops waiting
  bool thread_polls_ = false;  // on descriptors that may be old
  std::uint64_t calls_ = 0;
  std::uint64_t calls_seen_ = 0;
  bool leaves_ = false;
  bool stop_ = false;
};

void DriverTurn::note_call() {
  ++calls_;
  if (std::exchange(thread_polls_, false)) notify_event(wake_.get());
}

void DriverTurn::end_wait(bool broken) {
  caller_waits_ = false;
  if (thread_rests_) turn_->notify_all();
  if (broken && wake_.valid()) notify_event(wake_.get());
}

void DriverTurn::rouse() {
  turn_->notify_all();
  notify_event(wake_.get());
}

void DriverTurn::leave() {
  leaves_ = true;
  rouse();
}

void DriverTurn::stop() {
  stop_ = true;
  rouse();
}

bool DriverTurn::stay_away(Mutex& mutex, bool broken) {
  thread_polls_ = false;
  const bool called = calls_seen_ != calls_;
  calls_seen_ = calls_;
  if (stop_ || leaves_ || broken) return false;
  if (caller_waits_ && !called) {
    thread_rests_ = true;
    turn_->wait(mutex);
    thread_rests_ = false;
    return true;
  }
  if (called) turn_->wait_until(mutex, now() + kHandOver);
  return called;
}

void DriverTurn::end(bool polls) {
  if (leaves_) turn_->notify_all();
  thread_polls_ = polls;
}

constexpr std::chrono::milliseconds kLookInterval{100};
// A word that the peer sent before the last message arrived comes within a round trip.
constexpr std::chrono::seconds kLongestRoundTrip{1};

/// Threads: as Transport; the manager's thread tends idle connections that do not heal.
class TcpTransport final : public Transport {
 public:
  TcpTransport(TcpTransportArgs args, FileDescriptor wake, FileDescriptor thread_wake)
      : args_(std::move(args)),
        mailbox_(std::move(wake)),
        peers_(static_cast<std::size_t>(args_.members.size())),
        turn_(std::move(thread_wake)) {
    {
      const MutexLock lock(mutex_);  // no call of the manager comes before its number is known
      for (std::size_t interface = 0; interface < args_.members.interfaces(); ++interface)
        add_service(interface);
    }
    if (heals()) {
      const SignalsBlocked blocked;
      thread_ = std::thread([this] { run(); });
    }
  }

  ~TcpTransport() override {
    if (::getpid() != process_) {
      forget();
      return;
    }
    if (heals()) {
      say_goodbye();
      stop_thread();
    } else {
      remove_services();
      deliver_rest();
    }
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] int rank() const noexcept override { return args_.members.rank(); }
  [[nodiscard]] int size() const noexcept override { return args_.members.size(); }

  Result<TransferId> send(int to, std::span<const std::byte> data) override RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    RONDE_RETURN_IF_ERROR(check_peer(to));
    turn_.note_call();
    Peer& with = peer(to);
    const TransferId id = make_transfer_id(false, to, with.post_send(data));
    bool more = false;
    if (broken_.ok()) broken_ = with.connect();
    if (broken_.ok()) broken_ = with.progress_sends(more);
    return id;
  }

  Result<TransferId> recv(int from, std::span<std::byte> data) override RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    RONDE_RETURN_IF_ERROR(check_peer(from));
    turn_.note_call();
    Peer& with = peer(from);
    const TransferId id = make_transfer_id(true, from, with.post_receive(data));
    if (broken_.ok()) broken_ = with.connect();
    return id;
  }

  Status wait(TransferId id, const AbortToken& abort) override RONDE_EXCLUDES(mutex_) {
    bool woken = false;
    Sleep next;
    while (true) {
      if (std::exchange(woken, false)) clear_event(mailbox_.wake());
      if (const auto end = try_to_finish(id, next)) return end->ok() ? *end : verdict(*end, abort);
      if (abort.poll()) {
        const MutexLock lock(mutex_);
        if (broken_.ok()) broken_ = abort.status();
      } else if (!next.ready) {
        const AbortListening listening(mailbox_.wake(), abort);
        sleep(next, kSleepSliceMs, woken);
      }
    }
  }

 private:
  /// The connections over one interface that may rest, for the manager's thread.
  class Idle final : public IdleConnections {
   public:
    Idle(TcpTransport& owner, std::size_t interface) noexcept
        : owner_(owner), interface_(interface) {}

    void tend() override {
      if (!owner_.heals()) owner_.tend();  // else the transport's own thread does
    }
    TimePoint least_recent_use() override { return owner_.least_recent_use(interface_); }
    void end_least_recent() override { owner_.end_least_recent(interface_); }

   private:
    TcpTransport& owner_;
    const std::size_t interface_;
  };

  /// The descriptors that a thread sleeps on, and how long.
  struct Sleep {
    std::vector<pollfd> entries;
    bool ready = false;  // nothing to sleep for
    bool needs_looks = false;
  };

  [[nodiscard]] bool heals() const noexcept { return args_.window_bytes > 0; }

  /// The connections of each interface are a service, so that both ends know which interface it is.
  void add_service(std::size_t interface) {
    Party party = args_.party;
    if (interface > 0) party.context += fmt::format("\ninterface {}", interface);
    auto on_link = [this, interface](Link link) { mailbox_.put({interface, std::move(link)}); };
    auto on_failure = [this, interface](int rank, const Status& why) {
      mailbox_.put(Mailbox::Failure{interface, rank, why});
    };
    idle_.push_back(std::make_unique<Idle>(*this, interface));
    services_.push_back(args_.manager->add(
        {std::move(party), std::move(on_link), std::move(on_failure), idle_.back().get()}));
  }

  void remove_services() {
    for (const auto service : services_) args_.manager->remove(service);
  }

  /// A forked child has no such thread, and says no goodbye on its parent's connections.
  void forget() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    turn_.forget();
    mailbox_.forget();
    for (auto& each : peers_) (void)each.release();
    // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): the child has no such thread to join
    (void)std::make_unique<std::thread>(std::move(thread_)).release();
  }
  // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

  /// A peer may ask to end a connection just before this side closes it. Its word would reset the
  /// connection, and what has not been delivered would be lost. The manager knows this no more.
  void deliver_rest() RONDE_NO_THREAD_SAFETY_ANALYSIS {
    if (!args_.manager->limited() || !broken_.ok()) return;
    const TimePoint limit = now() + kLongestRoundTrip;
    for (Peer* each : used_) {
      while (now() < limit && !each->drain()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  // Connections that may rest, for the manager's thread.

  /// True with the mutex locked. Another thread may hold it for long: then a later call counts.
  bool try_lock() RONDE_TRY_ACQUIRE(true, mutex_) {
    if (mutex_.try_lock()) return true;
    args_.manager->settle();
    return false;
  }

  void tend() RONDE_EXCLUDES(mutex_) {
    if (!try_lock()) return;
    // A wait takes its mail itself: it must see the wake-up.
    if (broken_.ok() && !turn_.caller_waits()) broken_ = take_mail();
    if (broken_.ok()) {
      for (Peer* each : used_) each->tend();
    }
    mutex_.unlock();
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
      turn_.note_call();  // the thread sends it, where there is one
    }
    mutex_.unlock();
  }

  // Mail.

  Status take_mail() RONDE_REQUIRES(mutex_) {
    Mailbox::Mail mail = mailbox_.take();
    for (Mailbox::Arrival& arrival : mail.links) {
      const int rank = args_.members.position(arrival.link.rank);
      if (args_.members.is_peer(rank))
        peer(rank).take_link(arrival.interface, std::move(arrival.link));
    }
    for (const auto& failure : mail.failures) {
      Peer& with = peer(args_.members.position(failure.rank));
      RONDE_RETURN_IF_ERROR(with.take_failure(failure.interface, failure.why));
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
  std::optional<Status> try_to_finish(TransferId id, Sleep& next) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    turn_.note_call();
    turn_.begin_wait();
    bool more = false;
    if (broken_.ok() && !done(id)) broken_ = progress(more);
    const bool finished = done(id);
    if (finished || !broken_.ok()) {
      turn_.end_wait(!broken_.ok());
      args_.manager->settle();
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
    next.needs_looks = false;
    next.entries.clear();
    if (more) return;
    next.entries.push_back({mailbox_.wake(), POLLIN, 0});
    for (const Peer* each : used_) {
      next.ready = next.ready || each->has_unread();
      next.needs_looks = next.needs_looks || each->needs_looks();
      each->for_each_wait([&](int fd, int events) {
        next.entries.push_back({fd, static_cast<short>(events), 0});
      });
    }
  }

  static void sleep(Sleep& next, std::int64_t limit_ms, bool& woken) {
    ::poll(next.entries.data(), next.entries.size(), static_cast<int>(limit_ms));
    woken = next.entries.front().revents != 0;
  }

  // The thread.

  void run() noexcept RONDE_EXCLUDES(mutex_) {
    name_this_thread("ronde-heal");
    bool woken = false;
    Sleep next;
    while (drive(next, woken)) {
      woken = false;
      if (!next.ready) sleep(next, next.needs_looks ? kLookInterval.count() : -1, woken);
    }
    withdraw();
  }

  /// One turn, once no caller drives the links; false at the end. The wake-up is the caller's where
  /// there is one.
  bool drive(Sleep& next, bool woken) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (turn_.stay_away(mutex_, !broken_.ok())) {
    }
    if (turn_.stopped() || !broken_.ok()) return false;
    if (woken) clear_event(mailbox_.wake());
    turn_.begin();
    bool more = false;
    broken_ = progress(more);
    prepare(next, more || !broken_.ok());
    next.entries.push_back({turn_.wake(), POLLIN, 0});
    turn_.end(/*polls=*/!next.ready);
    args_.manager->settle();
    return true;
  }

  /// Nothing moves any more. The peers see that by their connections, old and new ones.
  void withdraw() RONDE_EXCLUDES(mutex_) {
    remove_services();
    const MutexLock lock(mutex_);
    for (Peer* each : used_) each->close();
  }

  /// The peers may still lack what was sent: it goes with this process's connections.
  void say_goodbye() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (Peer* each : used_) {
      if (each->was_connected()) each->post_goodbye();
    }
    turn_.leave();
    const TimePoint deadline = now() + args_.limit;
    const auto may_end = [](const Peer* each) { return each->may_end(); };
    while (broken_.ok() && now() < deadline && !std::ranges::all_of(used_, may_end)) {
      if (args_.abort && args_.abort->aborted()) return;
      turn_.wait_for_thread(mutex_, kLookInterval);
    }
  }

  void stop_thread() RONDE_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      turn_.stop();
    }
    thread_.join();
  }

  const TcpTransportArgs args_;
  const pid_t process_ = ::getpid();
  Mailbox mailbox_;                                     // its wake-up is also for aborts
  std::vector<std::unique_ptr<Idle>> idle_;             // by interface
  std::vector<ConnectionManager::ServiceId> services_;  // by interface
  const PeerNeeds needs_{args_, services_};
  Mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_ RONDE_GUARDED_BY(mutex_);  // by rank; null: never used
  std::vector<Peer*> used_ RONDE_GUARDED_BY(mutex_);
  Status broken_ RONDE_GUARDED_BY(mutex_);  ///< Nothing moves any more.
  Status told_ RONDE_GUARDED_BY(mutex_);    ///< The error that wait() has returned.
  TimePoint looked_ RONDE_GUARDED_BY(mutex_);
  DriverTurn turn_ RONDE_GUARDED_BY(mutex_);
  std::thread thread_;  // where connections heal
};

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(TcpTransportArgs args) {
  const bool heals = args.window_bytes > 0;
  FileDescriptor wake = make_event();
  FileDescriptor thread_wake = heals ? make_event() : FileDescriptor();
  if (!wake.valid() || (heals && !thread_wake.valid())) {
    return errno_status("cannot make an eventfd", Code::kResourceExhausted);
  }
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(std::move(args), std::move(wake), std::move(thread_wake)));
}

}  // namespace ronde::net
