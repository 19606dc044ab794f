// The control channel of a job. It routes frames to ranks of this host through shared memory and to
// others over TCP. It reports a lost rank once, from whichever source.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/net/control/host_channel.h"
#include "backends/net/control/tcp_links.h"
#include "core/base/abort.h"
#include "core/ports/connection_counts.h"
#include "core/ports/control_channel.h"
#include "core/ports/topology.h"

namespace ronde::net {

/// The parts of a channel.
struct JobChannelArgs {
  Topology topology;
  std::unique_ptr<HostChannel> local;   ///< Of the ranks that `topology` puts on this host.
  std::optional<LinkArgs> remote{};     ///< The way to other hosts, if there are any.
  LossLimits limits{};                  ///< When silent ranks are given up.
  std::shared_ptr<AbortToken> abort{};  ///< Aborted as soon as a rank is lost; may be null.
  ConnectionObservers observers{};      ///< Of links that heal.
};

/// The control channel to all ranks of the job. Threads: as ControlChannel.
class JobChannel final : public ControlChannel {
 public:
  explicit JobChannel(JobChannelArgs args);
  ~JobChannel() override;

  /// Connects this host with others; once, before anything else. As TcpLinks::connect.
  Status connect(const WaitLimit& limit);

  [[nodiscard]] const Topology& topology() const noexcept override { return topology_; }
  Status send(int to, std::span<const std::byte> frame) override;
  bool poll(ChannelSink& sink) override;
  bool kick() noexcept override { return local_->kick(); }
  std::uint32_t prepare_wait(Sleeper who) noexcept override;
  void wait(Sleeper who, std::uint32_t ticket, TimePoint deadline) noexcept override;
  void wake(Sleeper who) noexcept override { local_->doorbell().wake(who); }
  void close() noexcept override;

 private:
  [[nodiscard]] bool is_peer(int rank) const noexcept;
  [[nodiscard]] bool is_lost(int rank) const noexcept;
  /// Then shared memory tells, after its last frame there; links may tell earlier.
  [[nodiscard]] bool leaves_this_host(const LostRank& lost) const;
  void lose(const LostRank& lost);
  void on_host_news(const LostRank& lost);
  void abort(const LostRank& lost) const;
  [[nodiscard]] LinkHooks link_hooks();
  [[nodiscard]] WatchHooks watch_hooks();
  [[nodiscard]] std::string end_of_silence(bool local) const;
  void on_change(int rank, const PeerLiveness& peer) const;
  [[nodiscard]] Status describe(const LostRank& lost) const;

  const Topology topology_;
  const std::unique_ptr<HostChannel> local_;
  const ChannelEvents local_events_;
  const ChannelEvents link_events_;
  const LossLimits limits_;
  const std::shared_ptr<AbortToken> abort_;
  const ConnectionObservers observers_;
  std::unique_ptr<TcpLinks> links_;  // null where all ranks are on this host
  std::atomic<bool> closed_{false};
  // Polling thread only.
  ChannelSink* sink_ = nullptr;  // during poll
  std::vector<Status> lost_;     // by job rank: ok while not lost
};

}  // namespace ronde::net
