// Point-to-point over connections that are opened again when they break (RONDE_RECONNECT_SECONDS).
// A thread of its own drives the links while no caller waits. So a peer that lacks something never
// depends on the next call of this rank.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <bitset>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/net/rendezvous/cards.h"
#include "backends/net/transport/link_reports.h"
#include "backends/net/transport/mailbox.h"
#include "backends/net/transport/members.h"
#include "backends/net/transport/striped_link.h"
#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/ports/connection_counts.h"
#include "core/ports/transport.h"

namespace ronde::net {

inline constexpr std::size_t kHealingWindowBytes = std::size_t{8} << 20;

/// The parts of a transport whose connections heal.
struct HealingTransportArgs {
  Members members;
  Party party;  ///< Of this rank, for connections of this group alone.
  std::shared_ptr<ConnectionManager> manager;
  /// This rank's network cards, by name: one at least.
  std::vector<std::string> cards;
  /// The way to a rank over the card of that place in the list.
  std::function<Result<Route>(const FailedRank& who, std::size_t card)> route;
  Duration timeout{};  ///< For the first connection with a peer.
  Duration limit{};    ///< For an outage of all connections with a peer.
  /// An outage of one card alone ends the group too after that time. False: the others go on.
  bool needs_all_cards = false;
  std::shared_ptr<AbortToken> abort;  ///< Of the group; ends the goodbye. May be null.
  std::size_t window_bytes = kHealingWindowBytes;
  ConnectionObservers observers = {};
};

class HealingTransport final : public Transport {
 public:
  /// Errors: kResourceExhausted.
  static Result<std::unique_ptr<HealingTransport>> create(HealingTransportArgs args);
  /// Blocks until the peers have what was sent to them: as long as an outage may last at most.
  ~HealingTransport() override;
  HealingTransport(const HealingTransport&) = delete;
  HealingTransport& operator=(const HealingTransport&) = delete;

  [[nodiscard]] int rank() const noexcept override { return args_.members.rank(); }
  [[nodiscard]] int size() const noexcept override { return args_.members.size(); }
  Result<TransferId> send(int to, std::span<const std::byte> data) override RONDE_EXCLUDES(mutex_);
  Result<TransferId> recv(int from, std::span<std::byte> data) override RONDE_EXCLUDES(mutex_);
  Status wait(TransferId id, const AbortToken& abort) override RONDE_EXCLUDES(mutex_);

 private:
  struct Peer {
    Peer(int the_rank, bool dials, std::size_t window_bytes, std::size_t cards)
        : rank(the_rank), link(dials, window_bytes, cards) {}

    int rank;  // in the group
    StripedLink link;
    std::bitset<kMostCards> dialing;
    std::bitset<kMostCards> left_out;  // the user knows
    bool ended = false;                // its process refuses connections
  };
  /// The descriptors that a thread sleeps on, and how long.
  struct Nap {
    std::vector<pollfd> entries;
    bool ready = false;  // nothing to sleep for
    bool needs_looks = false;
  };

  HealingTransport(HealingTransportArgs args, FileDescriptor wake, FileDescriptor thread_wake);

  [[nodiscard]] Status check_peer(int rank) const RONDE_REQUIRES(mutex_);
  Peer& peer(int rank) RONDE_REQUIRES(mutex_);
  [[nodiscard]] bool done(TransferId id) const RONDE_REQUIRES(mutex_);
  Status take_mail() RONDE_REQUIRES(mutex_);
  void take_link(Mailbox::Arrival arrival) RONDE_REQUIRES(mutex_);
  Status take_failure(const Mailbox::Failure& failure) RONDE_REQUIRES(mutex_);

  void add_service(std::size_t card);
  Status connect(Peer& with) RONDE_REQUIRES(mutex_);
  Status connect(Peer& with, std::size_t card) RONDE_REQUIRES(mutex_);
  Status dial(Peer& with, std::size_t card) RONDE_REQUIRES(mutex_);
  /// One turn of all links.
  Status progress(bool& moved) RONDE_REQUIRES(mutex_);
  Status look() RONDE_REQUIRES(mutex_);
  Status check(Peer& with) RONDE_REQUIRES(mutex_);
  Status check_outage(const Peer& with, std::size_t card) const RONDE_REQUIRES(mutex_);
  void report_outages(Peer& with) RONDE_REQUIRES(mutex_);
  void leave_out(Peer& with, std::size_t card, const std::string& reason) RONDE_REQUIRES(mutex_);
  [[nodiscard]] Nap nap() const RONDE_REQUIRES(mutex_);

  /// Ok: it is done. Nothing: sleep first.
  std::optional<Status> try_to_finish(TransferId id, Nap& nap_for) RONDE_EXCLUDES(mutex_);
  Status verdict(const Status& error, const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  static void sleep(Nap& nap, std::int64_t limit_ms, bool& woken);
  void note_call() RONDE_REQUIRES(mutex_);
  void stop_waiting() RONDE_REQUIRES(mutex_);

  void run() noexcept RONDE_EXCLUDES(mutex_);
  bool drive(Nap& nap_for, bool woken) RONDE_EXCLUDES(mutex_);
  bool stay_away() RONDE_REQUIRES(mutex_);
  void withdraw() RONDE_EXCLUDES(mutex_);
  void say_goodbye() RONDE_EXCLUDES(mutex_);
  void stop_thread() RONDE_EXCLUDES(mutex_);

  const HealingTransportArgs args_;
  const LinkReports reports_;
  const pid_t process_ = ::getpid();
  Mailbox mailbox_;                   // its wake-up is also for aborts
  const FileDescriptor thread_wake_;  // readable: the thread is to leave its sleep in poll()
  std::vector<ConnectionManager::ServiceId> services_;  // by card
  Mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_ RONDE_GUARDED_BY(mutex_);  // by rank; null: never used
  std::vector<Peer*> used_ RONDE_GUARDED_BY(mutex_);
  Status broken_ RONDE_GUARDED_BY(mutex_);  ///< Nothing moves any more.
  Status told_ RONDE_GUARDED_BY(mutex_);    ///< The error that wait() has returned.
  TimePoint looked_ RONDE_GUARDED_BY(mutex_);
  // Who drives.
  // Of the thread, and of the end. A forked child leaks it, as a thread may wait there.
  std::unique_ptr<CondVar> turn_ = std::make_unique<CondVar>();
  bool caller_waits_ RONDE_GUARDED_BY(mutex_) = false;
  bool thread_rests_ RONDE_GUARDED_BY(mutex_) = false;  // until a caller stops waiting
  bool thread_polls_ RONDE_GUARDED_BY(mutex_) = false;  // on descriptors that may be old
  std::uint64_t calls_ RONDE_GUARDED_BY(mutex_) = 0;
  std::uint64_t calls_seen_ RONDE_GUARDED_BY(mutex_) = 0;
  bool leaves_ RONDE_GUARDED_BY(mutex_) = false;
  bool stop_ RONDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ronde::net
