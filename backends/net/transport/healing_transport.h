// Point-to-point over connections that are opened again when they break (RONDE_RECONNECT_SECONDS).
// A thread of its own drives the links while no caller waits. So a peer that lacks something never
// depends on the next call of this rank.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/net/transport/driver_turn.h"
#include "backends/net/transport/healing_peer.h"
#include "backends/net/transport/healing_transport_args.h"
#include "backends/net/transport/link_reports.h"
#include "backends/net/transport/mailbox.h"
#include "core/base/abort.h"
#include "core/base/mutex.h"
#include "core/ports/transport.h"

namespace ronde::net {

class HealingTransport final : public Transport {
 public:
  /// The connections over one card that may rest.
  class Idle;

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
  /// The descriptors that a thread sleeps on, and how long.
  struct Nap {
    std::vector<pollfd> entries;
    bool ready = false;  // nothing to sleep for
    bool needs_looks = false;
  };

  HealingTransport(HealingTransportArgs args, FileDescriptor wake, FileDescriptor thread_wake);

  [[nodiscard]] Status check_peer(int rank) const RONDE_REQUIRES(mutex_);
  HealingPeer& peer(int rank) RONDE_REQUIRES(mutex_);
  [[nodiscard]] bool done(TransferId id) const RONDE_REQUIRES(mutex_);
  [[nodiscard]] BondedLink* least_recently_used(std::size_t card) RONDE_REQUIRES(mutex_);
  TimePoint least_recent_use(std::size_t card) RONDE_EXCLUDES(mutex_);
  void end_least_recent(std::size_t card) RONDE_EXCLUDES(mutex_);

  Status take_mail() RONDE_REQUIRES(mutex_);
  void add_service(std::size_t card);
  /// One turn of all links.
  Status progress(bool& moved) RONDE_REQUIRES(mutex_);
  Status look() RONDE_REQUIRES(mutex_);
  [[nodiscard]] Nap nap() const RONDE_REQUIRES(mutex_);

  /// Ok: it is done. Nothing: sleep first.
  std::optional<Status> try_to_finish(TransferId id, Nap& nap_for) RONDE_EXCLUDES(mutex_);
  Status verdict(const Status& error, const AbortToken& abort) RONDE_EXCLUDES(mutex_);
  static void sleep(Nap& nap, std::int64_t limit_ms, bool& woken);

  void run() noexcept RONDE_EXCLUDES(mutex_);
  bool drive(Nap& nap_for, bool woken) RONDE_EXCLUDES(mutex_);
  void withdraw() RONDE_EXCLUDES(mutex_);
  void say_goodbye() RONDE_EXCLUDES(mutex_);
  void stop_thread() RONDE_EXCLUDES(mutex_);

  const HealingTransportArgs args_;
  const LinkReports reports_;
  const pid_t process_ = ::getpid();
  Mailbox mailbox_;                                     // its wake-up is also for aborts
  std::vector<std::unique_ptr<Idle>> idle_;             // by card
  std::vector<ConnectionManager::ServiceId> services_;  // by card
  const PeerNeeds needs_{args_, reports_, services_};
  Mutex mutex_;
  std::vector<std::unique_ptr<HealingPeer>> peers_
      RONDE_GUARDED_BY(mutex_);  // by rank; null: never used
  std::vector<HealingPeer*> used_ RONDE_GUARDED_BY(mutex_);
  Status broken_ RONDE_GUARDED_BY(mutex_);  ///< Nothing moves any more.
  Status told_ RONDE_GUARDED_BY(mutex_);    ///< The error that wait() has returned.
  TimePoint looked_ RONDE_GUARDED_BY(mutex_);
  DriverTurn turn_ RONDE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ronde::net
