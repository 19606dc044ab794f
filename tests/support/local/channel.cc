// The control channel between ranks that are threads: a view of the hub's inboxes.
#include <fmt/format.h>

#include <atomic>
#include <set>
#include <utility>

#include "tests/support/local/factory.h"

namespace ronde {
namespace {

class LocalChannel final : public ControlChannel {
 public:
  LocalChannel(std::shared_ptr<LocalHub> hub, int rank)
      : hub_(std::move(hub)), topology_(hub_->topology(rank)), inbox_(hub_->inbox(rank)) {}
  ~LocalChannel() override { close(); }

  [[nodiscard]] const Topology& topology() const noexcept override { return topology_; }
  Status send(int to, std::span<const std::byte> frame) override;
  bool poll(ChannelSink& sink) override;
  bool kick() noexcept override;
  std::uint32_t prepare_wait(Sleeper who) noexcept override { return inbox_.prepare_wait(who); }
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override {
    if (!closed_) inbox_.wait(who, ticket, deadline);
  }
  void wake(Sleeper who) noexcept override { inbox_.wake(who); }
  void close() noexcept override;

 private:
  const std::shared_ptr<LocalHub> hub_;
  const Topology topology_;
  LocalInbox& inbox_;
  std::set<int> unkicked_;           // polling thread only
  std::atomic<bool> closed_{false};  // any thread
};

Status LocalChannel::send(int to, std::span<const std::byte> frame) {
  if (to < 0 || to >= topology_.size() || to == topology_.rank) {
    return Status(Code::kInvalidArgument, fmt::format("no frame can be sent to rank {}", to));
  }
  if (frame.size() > kMaxFrameBytes) {
    return Status(Code::kInvalidArgument, fmt::format("a frame of {} bytes is over the limit of {}",
                                                      frame.size(), kMaxFrameBytes));
  }
  RONDE_RETURN_IF_ERROR(inbox_.end_of(to));
  if (closed_) return Status(Code::kAborted, "the channel is closed");
  hub_->inbox(to).deliver(topology_.rank, frame);
  unkicked_.insert(to);
  return {};
}

void deliver(const InboxItem& item, ChannelSink& sink) {
  switch (item.kind) {
    case InboxItem::Kind::kFrame:
      return sink.on_frame(item.from, item.frame);
    case InboxItem::Kind::kLost:
      return sink.on_peer_lost(item.from, item.reason);
    case InboxItem::Kind::kLeft:
      return sink.on_peer_left(item.from, item.reason);
  }
}

bool LocalChannel::poll(ChannelSink& sink) {
  const std::deque<InboxItem> items = inbox_.take();
  for (const InboxItem& item : items) {
    deliver(item, sink);
  }
  return !items.empty();
}

bool LocalChannel::kick() noexcept {
  for (const int peer : std::exchange(unkicked_, {})) hub_->inbox(peer).wake_if_unread();
  return true;  // inboxes have no end
}

void LocalChannel::close() noexcept {
  if (closed_.exchange(true)) return;
  hub_->leave(topology_.rank);
  inbox_.close();
}

}  // namespace

std::unique_ptr<ControlChannel> create_local_channel(std::shared_ptr<LocalHub> hub, int rank) {
  return std::make_unique<LocalChannel>(std::move(hub), rank);
}

}  // namespace ronde
