// Presents the processes that `ronde run` started as a group for a backend.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/net/factory.h"
#include "core/ports/backend.h"
#include "core/ports/control_channel.h"

namespace ronde::test {

/// Exchange between all ranks of a job, over its control channel. Threads: one at a time.
class ChannelExchange final : public Exchange, private ChannelSink {
 public:
  /// The channel must outlive it, and have no other reader.
  explicit ChannelExchange(ControlChannel& channel) : channel_(channel) {}
  Result<std::vector<std::string>> allgather(std::string_view mine) override;

 private:
  void on_frame(int from, std::span<const std::byte> frame) override;
  void on_peer_lost(int rank, const Status& reason) override;
  void on_peer_left(int rank, const Status& reason) override;
  Status wait_for_all();
  [[nodiscard]] bool has_all() const;

  ControlChannel& channel_;
  std::map<int, std::deque<std::string>> arrived_;  // by rank, in the order of the calls
  Status lost_;                                     // of the first rank that is lost
};

/// Threads: one at a time.
class ProcessWorld {
 public:
  /// This process's world, which joins the job that the environment describes.
  static ProcessWorld& instance();

  [[nodiscard]] int rank() const noexcept { return link_.channel->topology().rank; }
  [[nodiscard]] int size() const noexcept { return link_.channel->topology().size(); }
  /// A group of all ranks with a new abort token and a new key.
  [[nodiscard]] GroupSpec group();
  [[nodiscard]] Exchange& exchange() noexcept { return exchange_; }

 private:
  ProcessWorld();

  JobLink link_;
  ChannelExchange exchange_;
  std::uint64_t key_ = 0;
};

}  // namespace ronde::test
