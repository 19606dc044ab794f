// The numbered messages between this rank and one other, over one link after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "backends/net/channel/tcp_link.h"

namespace ronde::net {

/// Counts what is sent and received, and keeps what the peer may lack. No clock. Threads: one at a
/// time.
class LinkSession {
 public:
  /// `heals`: messages are kept until the peer has confirmed them, so that another link can go on.
  explicit LinkSession(bool heals) noexcept : heals_(heals) {}

  /// Sends a frame or a loss, or keeps it for the next link.
  void send(LinkMessage kind, std::span<const std::byte> bytes);
  /// Goes on over this link. The peer has received so many messages.
  void use(TcpLink& link, std::uint64_t received);
  /// The link has ended. Without healing no other one follows.
  void drop(const TcpLink& link) noexcept;
  /// Nothing is sent any more.
  void give_up() noexcept;

  /// Messages go here; null where there is none.
  [[nodiscard]] TcpLink* link() const noexcept { return link_; }
  /// True where a link is to be made for messages.
  [[nodiscard]] bool needs_link() const noexcept { return link_ == nullptr && !over_; }
  /// True before the first link.
  [[nodiscard]] bool is_fresh() const noexcept { return fresh_; }
  /// True while the peer may lack messages. Without healing: while they wait for a link.
  [[nodiscard]] bool has_kept() const noexcept { return !kept_.empty(); }

  /// Notes that the peer has received so many. False if so many were never sent.
  bool confirm(std::uint64_t received) noexcept;
  /// Takes the number of a message that has arrived. False if it is known already.
  bool take(std::uint64_t number, std::size_t bytes) noexcept;
  /// True where a message before this one is missing.
  [[nodiscard]] bool lacks_some(std::uint64_t number) const noexcept { return number > received_; }

  /// True if the peer keeps messages that this rank has. `many`: it is time to tell.
  [[nodiscard]] bool owes() const noexcept { return heals_ && owed_messages_ > 0; }
  [[nodiscard]] bool owes_many() const noexcept { return heals_ && owed_bytes_ > kManyBytes; }
  /// How many messages have been received, for the peer.
  [[nodiscard]] std::uint64_t tell() noexcept {
    owed_messages_ = owed_bytes_ = 0;
    return received_;
  }

 private:
  struct Message {
    LinkMessage kind{};
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kManyBytes = std::size_t{256} << 10;

  const bool heals_;
  TcpLink* link_ = nullptr;
  bool fresh_ = true;
  bool over_ = false;
  std::deque<Message> kept_;
  std::uint64_t first_ = 0;  // the number of the first kept message, or of the next one
  std::uint64_t received_ = 0;
  std::size_t owed_messages_ = 0;
  std::size_t owed_bytes_ = 0;
};

}  // namespace ronde::net
