// Both sides of an idle connection agree to end it, so that no byte is lost. It is made again once
// it is needed.
//
//   asking side                     other side
//   kAsk: nothing is in flight  ->
//                               <-  kGrant: nothing follows until you decide; or kRefuse: I use it
//   kClose: the last word       ->
//
// The asking side may use the connection meanwhile: it sends kKeep first. Where both ask at once,
// the dialer refuses and the other side grants. The side that sends kClose has read all, and
// closes; the other side closes once it has read kClose.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/status.h"

namespace ronde::net {

enum class EndWord : std::uint8_t { kAsk = 1, kGrant, kRefuse, kKeep, kClose };

/// The word that a frame's number is; none of the above where it is too large.
constexpr EndWord end_word(std::uint64_t number) noexcept {
  return static_cast<EndWord>(number < UINT8_MAX ? number : UINT8_MAX);
}

/// One side's part of the agreement: words in, words out. Threads: one.
class EndAgreement {
 public:
  /// `dials`: this side made the connection.
  explicit EndAgreement(bool dials) noexcept : dials_(dials) {}

  /// True where this side may ask. After a refusal that is once it has used the connection.
  [[nodiscard]] bool may_ask() const noexcept { return ask_ == Ask::kNone && !granted_; }
  [[nodiscard]] EndWord ask() noexcept {
    ask_ = Ask::kSent;
    return EndWord::kAsk;
  }

  /// A transfer is about to be posted. Returns the word to send before it.
  std::optional<EndWord> use() noexcept;

  /// Takes the peer's word; `busy`: transfers are posted. Returns the word to send.
  /// Errors: kInternal where it is out of turn.
  Result<std::optional<EndWord>> on_word(EndWord word, bool busy);

  /// True while the peer decides; no transfer may be sent meanwhile.
  [[nodiscard]] bool granted() const noexcept { return granted_; }
  /// True once this side has decided to close.
  [[nodiscard]] bool closing() const noexcept { return ask_ == Ask::kClosing; }
  /// True while the connection will end unless somebody uses it.
  [[nodiscard]] bool ending() const noexcept { return granted_ || closing() || ask_ == Ask::kSent; }

 private:
  enum class Ask : std::uint8_t { kNone, kSent, kWithdrawn, kRefused, kClosing };

  [[nodiscard]] bool awaits_answer() const noexcept {
    return ask_ == Ask::kSent || ask_ == Ask::kWithdrawn;
  }

  bool dials_;
  bool granted_ = false;
  Ask ask_ = Ask::kNone;
};

inline std::optional<EndWord> EndAgreement::use() noexcept {
  if (ask_ == Ask::kRefused) ask_ = Ask::kNone;
  if (ask_ != Ask::kSent) return std::nullopt;
  ask_ = Ask::kWithdrawn;
  return EndWord::kKeep;
}

inline Result<std::optional<EndWord>> EndAgreement::on_word(EndWord word, bool busy) {
  using Answer = std::optional<EndWord>;
  const bool answers = word == EndWord::kGrant || word == EndWord::kRefuse;
  if ((answers && !awaits_answer()) || (word == EndWord::kClose && !granted_)) {
    return Status(Code::kInternal, "sent a word of the connection out of turn");
  }
  switch (word) {
    case EndWord::kAsk:
      granted_ = !busy && !(awaits_answer() && dials_);
      return Answer(granted_ ? EndWord::kGrant : EndWord::kRefuse);
    case EndWord::kGrant:
      ask_ = ask_ == Ask::kSent ? Ask::kClosing : Ask::kNone;
      return closing() ? Answer(EndWord::kClose) : Answer();
    case EndWord::kRefuse:
      ask_ = ask_ == Ask::kSent ? Ask::kRefused : Ask::kNone;
      return Answer();
    case EndWord::kKeep:
      granted_ = false;
      return Answer();
    case EndWord::kClose:
      return Answer();
  }
  return Status(Code::kInternal, "sent an unknown word of the connection");
}

}  // namespace ronde::net
