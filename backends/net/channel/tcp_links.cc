#include "backends/net/channel/tcp_links.h"

#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "backends/net/channel/tcp_link.h"
#include "core/base/thread_name.h"
#include "core/base/wire_codec.h"

namespace ronde::net {
namespace {

constexpr std::chrono::seconds kGoodbyeLimit{1};
/// Many links have rarer heartbeats, which would cost too much otherwise.
constexpr std::chrono::milliseconds kTimePerLink{2};
constexpr Duration kForeverSilent = Duration::max();

/// One thing that poll() delivers.
struct Item {
  int rank = -1;
  std::optional<Loss> loss;
  std::vector<std::byte> frame;
};

}  // namespace

class TcpLinks::Impl {
 public:
  Impl(std::vector<Link> links, LossLimits limits, LinkHooks hooks);
  ~Impl();

  void send(int to, LinkMessage kind, std::span<const std::byte> bytes);
  void send_all(LinkMessage kind, std::span<const std::byte> bytes);
  bool deliver(const LinkEvents& events) RONDE_EXCLUDES(mutex_);
  void close() noexcept RONDE_EXCLUDES(mutex_);
  [[nodiscard]] const std::atomic<bool>& arrived() const noexcept { return arrived_; }
  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  void run() noexcept;
  void on_message(int from, LinkMessage kind, std::span<const std::byte> bytes);
  void on_end(int rank, Loss how) RONDE_EXCLUDES(mutex_);
  void put(Item item) RONDE_EXCLUDES(mutex_);
  void arm_timer();
  void on_timer();
  void look_at(std::size_t index, TcpLink& link);

  const pid_t process_ = ::getpid();
  const Duration interval_;
  const LinkHooks hooks_;
  const LinkSink sink_;
  asio::io_context io_{1};
  std::map<int, std::unique_ptr<TcpLink>> links_;  // fixed after construction
  std::atomic<bool> arrived_{false};
  // I/O thread only.
  asio::steady_timer timer_{io_};
  SilenceWatch silent_;       // ranks that do not run
  SilenceWatch unreachable_;  // hosts that do not acknowledge
  // Guarded.
  Mutex mutex_;
  CondVar all_ended_;
  std::vector<Item> items_ RONDE_GUARDED_BY(mutex_);
  std::size_t open_ RONDE_GUARDED_BY(mutex_);
  bool closed_ = false;  // the closing thread
  std::thread thread_;
};

TcpLinks::Impl::Impl(std::vector<Link> links, LossLimits limits, LinkHooks hooks)
    : interval_(std::max<Duration>(kBeatInterval, links.size() * kTimePerLink)),
      hooks_(std::move(hooks)),
      sink_{[this](int from, LinkMessage kind, std::span<const std::byte> bytes) {
              on_message(from, kind, bytes);
            },
            [this](int rank, Loss how) { on_end(rank, how); }},
      silent_(links.size(), interval_, limits.freeze),
      unreachable_(links.size(), interval_, limits.link),
      open_(links.size()) {
  for (Link& link : links) {
    const int rank = link.rank;
    auto made = std::make_unique<TcpLink>(io_, std::move(link), sink_);
    made->start();
    links_.emplace(rank, std::move(made));
  }
  arm_timer();
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

TcpLinks::Impl::~Impl() { close(); }

void TcpLinks::Impl::run() noexcept {
  name_this_thread("ronde-tcp");
  const auto work = asio::make_work_guard(io_);
  io_.run();
}

void TcpLinks::Impl::arm_timer() {
  timer_.expires_after(interval_);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) on_timer();
  });
}

void TcpLinks::Impl::on_timer() {
  const TimePoint time = now();
  silent_.look(time);
  unreachable_.look(time);
  std::size_t index = 0;
  for (const auto& [rank, link] : links_) {
    if (!link->ended()) look_at(index, *link);
    ++index;
  }
  arm_timer();
}

void TcpLinks::Impl::look_at(std::size_t index, TcpLink& link) {
  if (unreachable_.sign(index, link.acknowledged(), kForeverSilent) == Silence::kGivenUp) {
    return link.end(Loss::kUnreachable);
  }
  const Silence what = silent_.sign(index, link.received(), 3 * interval_);
  if (what == Silence::kGivenUp) return link.end(Loss::kFrozen);
  if (what == Silence::kSuspected) hooks_.rank_silent(link.rank(), what, silent_.silence(index));
  if (what == Silence::kBack) hooks_.rank_silent(link.rank(), what, silent_.silence_before(index));
  link.send(LinkMessage::kHeartbeat, {});
}

void TcpLinks::Impl::put(Item item) {
  {
    const MutexLock lock(mutex_);
    items_.push_back(std::move(item));
  }
  // Sequentially consistent: comes before the hook reads which thread to wake.
  arrived_.store(true, std::memory_order_seq_cst);
}

void TcpLinks::Impl::on_message(int from, LinkMessage kind, std::span<const std::byte> bytes) {
  if (kind == LinkMessage::kFrame) {
    put({from, std::nullopt, {bytes.begin(), bytes.end()}});
    hooks_.frame_arrived();
    return;
  }
  const auto read = decode_wire<int>(bytes, "loss");
  const bool died = kind == LinkMessage::kDied;
  if ((!died && kind != LinkMessage::kFrozen) || !read.ok()) return;
  const int dead = *read;
  const Loss how = died ? Loss::kDied : Loss::kFrozen;
  put({dead, how, {}});
  hooks_.rank_lost(dead, how);
}

void TcpLinks::Impl::on_end(int rank, Loss how) {
  put({rank, how, {}});
  {
    const MutexLock lock(mutex_);
    --open_;
    all_ended_.notify_all();
  }
  hooks_.rank_lost(rank, how);
}

void TcpLinks::Impl::send(int to, LinkMessage kind, std::span<const std::byte> bytes) {
  const auto found = links_.find(to);
  if (found != links_.end()) found->second->send(kind, bytes);
}

void TcpLinks::Impl::send_all(LinkMessage kind, std::span<const std::byte> bytes) {
  for (const auto& [rank, link] : links_) link->send(kind, bytes);
}

bool TcpLinks::Impl::deliver(const LinkEvents& events) {
  arrived_.store(false, std::memory_order_seq_cst);
  std::vector<Item> items;
  {
    const MutexLock lock(mutex_);
    items.swap(items_);
  }
  for (const Item& item : items) {
    if (item.loss) {
      events.on_lost(item.rank, *item.loss);
    } else {
      events.on_frame(item.rank, item.frame);
    }
  }
  return !items.empty();
}

void TcpLinks::Impl::close() noexcept {
  if (std::exchange(closed_, true)) return;
  send_all(LinkMessage::kGoodbye, {});
  const TimePoint deadline = now() + kGoodbyeLimit;
  {
    const MutexLock lock(mutex_);
    while (open_ != 0 && all_ended_.wait_until(mutex_, deadline)) {
    }
  }
  io_.stop();
  thread_.join();
}

TcpLinks::TcpLinks(std::vector<Link> links, LossLimits limits, LinkHooks hooks)
    : impl_(std::make_unique<Impl>(std::move(links), limits, std::move(hooks))),
      arrived_(&impl_->arrived()) {}

TcpLinks::~TcpLinks() {
  // A forked child shares the parent's epoll instance. Closing the sockets there would end the
  // parent's events, so the child leaks the memory.
  if (::getpid() != impl_->process()) (void)impl_.release();
}

void TcpLinks::send(int to, std::span<const std::byte> frame) {
  impl_->send(to, LinkMessage::kFrame, frame);
}

void TcpLinks::notify_lost(int rank, Loss how) {
  const LinkMessage kind = how == Loss::kDied ? LinkMessage::kDied : LinkMessage::kFrozen;
  impl_->send_all(kind, encode_wire(rank));
}

bool TcpLinks::poll_slowly(const LinkEvents& events) { return impl_->deliver(events); }

void TcpLinks::close() noexcept {
  if (::getpid() == impl_->process()) impl_->close();
}

}  // namespace ronde::net
