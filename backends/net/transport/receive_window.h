// The receiving half of a link that heals: puts chunks into posted receives, keeps those that come
// before their receive, and drops those that it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "backends/net/transport/chunk.h"
#include "core/base/status.h"

namespace ronde::net {

/// The receives of one peer. It reads all that comes, so that acknowledgements are never stuck
/// behind data. The peer's window bounds what it keeps. Threads: one.
/// Errors of its members: kInternal where the peer sent what cannot be.
class ReceiveWindow {
 public:
  /// `bytes`: of the peer's window.
  explicit ReceiveWindow(std::size_t bytes) noexcept : capacity_(bytes) {}

  /// Returns the number of the message: the first is 0.
  std::uint64_t post(std::span<std::byte> data);
  [[nodiscard]] bool received(std::uint64_t number) const noexcept { return done_ > number; }
  [[nodiscard]] bool has_posted() const noexcept { return !receives_.empty(); }

  /// The place for the bytes of a numbered chunk that begins to arrive. Empty: the caller holds
  /// them and gives them to end().
  Result<std::span<std::byte>> begin(const ChunkHeader& header);
  /// All bytes of the chunk have arrived; `held` where begin() gave no place.
  Status end(const ChunkHeader& header, std::span<const std::byte> held);

  /// True where the chunk of this number has arrived.
  [[nodiscard]] bool has(std::uint64_t sequence) const {
    return sequence < received_ || beyond_.contains(sequence);
  }
  /// All chunks below this number have arrived; below that one they are in posted receives.
  [[nodiscard]] std::uint64_t received_below() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t delivered_below() const noexcept;
  /// The cost, in the peer's window, of all chunks below delivered_below().
  [[nodiscard]] std::uint64_t delivered_cost() const noexcept { return delivered_cost_; }
  /// True once the peer has left and all that it sent has arrived.
  [[nodiscard]] bool peer_left() const noexcept { return goodbye_ < received_; }

 private:
  struct Incoming {
    std::span<std::byte> data;
    std::size_t missing = 0;
    bool begun = false;  // a message of zero bytes is a chunk too
  };
  struct Early {
    ChunkHeader header;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] bool posted(const ChunkHeader& header) const noexcept {
    return header.kind == ChunkKind::kData && header.message - done_ < receives_.size();
  }
  Incoming& receive_of(const ChunkHeader& header) { return receives_[header.message - done_]; }
  Status check(const ChunkHeader& header) const;
  Status check_length(const ChunkHeader& header);
  Status keep(const ChunkHeader& header, std::span<const std::byte> bytes);
  void note(std::uint64_t sequence);
  void deliver(const ChunkHeader& header);
  void take_early();
  void count_delivered();

  const std::size_t capacity_;
  std::deque<Incoming> receives_;  // not done; the first has the number done_
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t received_ = 0;
  std::set<std::uint64_t> beyond_;  // arrived, above a number that has not
  std::map<std::uint64_t, Early> early_;
  std::size_t early_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> uncounted_;  // cost of each, delivered beyond the others
  std::uint64_t delivered_cost_ = 0;
  std::uint64_t goodbye_ = ~std::uint64_t{0};  // its number
  Status wrong_length_;
};

}  // namespace ronde::net
