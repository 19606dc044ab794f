// How both ends of a connection agree to do without it until it is needed.
//
// One asks (kRest). The peer agrees (kRested) once it has no use for the connection either, and the
// first one closes it. If that has a use for it again, it refuses (kStay). Data that is sent or
// received meanwhile ends the matter.
#pragma once

#include <utility>

#include "backends/net/link/counted_connection.h"
#include "backends/net/transport/chunk.h"

namespace ronde::net {

/// One end of it. A connection about to rest does not count in the limit. Threads: one at a time.
class RestAgreement {
 public:
  RestAgreement() = default;  ///< Of no connection.
  explicit RestAgreement(CountedConnection counted) noexcept : counted_(std::move(counted)) {}

  /// Asks the peer.
  void ask() noexcept { enter(State::kAsked, ChunkKind::kRest); }
  /// True once this rank has asked or agreed.
  [[nodiscard]] bool is_under_way() const noexcept { return state_ != State::kNo; }
  /// True once the peer may close the connection.
  [[nodiscard]] bool is_agreed() const noexcept { return state_ == State::kAgreed; }

  /// Takes what the peer says. True: this rank is to close the connection. `idle`: it has no use
  /// for it.
  bool take(ChunkKind kind, bool idle) noexcept {
    if (kind == ChunkKind::kRest) peer_asks_ = true;
    if (kind == ChunkKind::kStay) end();
    if (kind != ChunkKind::kRested) return false;
    if (is_under_way() && idle) return true;
    end();
    word_ = ChunkKind::kStay;
    return false;
  }
  /// Agrees where the peer has asked.
  void answer() noexcept {
    if (std::exchange(peer_asks_, false)) enter(State::kAgreed, ChunkKind::kRested);
  }
  /// Data is about to be sent. A peer that may close the connection decides.
  void note_sent() noexcept {
    if (!is_agreed()) end();
  }
  void note_received() noexcept { end(); }

  /// True where the peer is to be told something.
  [[nodiscard]] bool has_word() const noexcept { return word_ != ChunkKind::kAcknowledgement; }
  /// The kind of the next chunk without data.
  [[nodiscard]] ChunkKind take_word() noexcept {
    return std::exchange(word_, ChunkKind::kAcknowledgement);
  }

 private:
  enum class State { kNo, kAsked, kAgreed };

  void enter(State state, ChunkKind word) noexcept {
    state_ = state;
    word_ = word;
    counted_.set_ending(state != State::kNo);
  }
  /// The connection stays in use. A refusal is still told.
  void end() noexcept {
    peer_asks_ = false;
    enter(State::kNo, word_ == ChunkKind::kStay ? word_ : ChunkKind::kAcknowledgement);
  }

  CountedConnection counted_;
  State state_ = State::kNo;
  bool peer_asks_ = false;
  ChunkKind word_ = ChunkKind::kAcknowledgement;
};

}  // namespace ronde::net
