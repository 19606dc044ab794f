// The links of one rank, and the thread that reads them. Private to tcp_links.cc.
#pragma once

#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <span>
#include <thread>

#include "backends/net/channel/first_links.h"
#include "backends/net/channel/link_dialer.h"
#include "backends/net/channel/link_items.h"
#include "backends/net/channel/link_peers.h"
#include "backends/net/channel/link_silence.h"
#include "backends/net/channel/tcp_link.h"
#include "backends/net/channel/tcp_links.h"
#include "core/base/mutex.h"
#include "core/base/os/file_descriptor.h"

namespace ronde::net {

/// Threads: one at a time, unless a method says otherwise.
class LinkThread {
 public:
  LinkThread(const Topology& topology, LinkArgs args, LossLimits limits, LinkHooks hooks);
  ~LinkThread();

  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  // As TcpLinks names them.
  Status connect(const WaitLimit& limit) RONDE_EXCLUDES(mutex_);
  void send(int to, std::span<const std::byte> frame) RONDE_EXCLUDES(mutex_);
  void pass_on(const LostRank& lost) RONDE_EXCLUDES(mutex_);
  bool is_linked(int rank) RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return peers_.of(rank).is_heard();
  }
  bool deliver(const LinkEvents& events) { return items_.deliver(events); }
  void close() noexcept RONDE_EXCLUDES(mutex_);
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return items_.arrived(); }
  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  struct Entry {
    std::unique_ptr<TcpLink> link;
    LinkSilence silence;
  };

  void adopt(Link link) RONDE_EXCLUDES(mutex_);
  void on_begin(TcpLink& link) RONDE_EXCLUDES(mutex_);
  void on_message(TcpLink& from, const LinkHead& head, std::span<const std::byte> bytes)
      RONDE_EXCLUDES(mutex_);
  bool take_number(TcpLink& from, const LinkHead& head, std::size_t bytes) RONDE_EXCLUDES(mutex_);
  void take_numbered(TcpLink& from, LinkMessage kind, std::span<const std::byte> bytes);
  void on_end(TcpLink& link, Loss how, Duration silence) RONDE_EXCLUDES(mutex_);
  void on_dial_failure(int rank, const Status& why) RONDE_EXCLUDES(mutex_);
  void dial(int rank, TimePoint deadline) RONDE_REQUIRES(mutex_) {
    dialer_.dial(rank, peers_.of(rank), deadline);
  }
  void learn(const LostRank& lost, const TcpLink* from) RONDE_EXCLUDES(mutex_);
  void lose(int rank, Loss how) RONDE_EXCLUDES(mutex_);
  bool spread(const LostRank& lost, const TcpLink* from) RONDE_REQUIRES(mutex_);
  void report(const LostRank& lost) RONDE_EXCLUDES(mutex_);
  void mend_tree() RONDE_EXCLUDES(mutex_);
  void notify() RONDE_REQUIRES(mutex_);
  void say_goodbye() RONDE_EXCLUDES(mutex_);
  void leave(Leaving part) RONDE_REQUIRES(mutex_);
  void arm_timer();
  void on_timer();
  void look_at(Entry& entry) RONDE_EXCLUDES(mutex_);
  void heal() RONDE_EXCLUDES(mutex_);

  const pid_t process_ = ::getpid();
  const Topology& topology_;
  const LinkArgs args_;
  const LossLimits limits_;
  const LinkHooks hooks_;
  const LinkSink sink_;
  const FileDescriptor changed_ = make_event();  // for connect()
  ConnectionManager::ServiceId service_ = 0;
  asio::io_context io_{1};
  LinkItems items_;
  std::atomic<bool> members_changed_{false};
  // I/O thread only.
  asio::steady_timer timer_{io_};
  std::list<Entry> links_;  // those that have ended go at the next look
  // Guarded.
  Mutex mutex_;
  CondVar links_changed_;
  LinkPeers peers_ RONDE_GUARDED_BY(mutex_);
  LinkDialer dialer_ RONDE_GUARDED_BY(mutex_);
  FirstLinks first_links_ RONDE_GUARDED_BY(mutex_);
  bool closed_ = false;  // the closing thread
  std::thread thread_;
};

}  // namespace ronde::net
