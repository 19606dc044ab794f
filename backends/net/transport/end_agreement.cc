#include "backends/net/transport/end_agreement.h"

namespace ronde::net {

std::optional<EndWord> EndAgreement::use() noexcept {
  if (ask_ == Ask::kRefused) ask_ = Ask::kNone;
  if (ask_ != Ask::kSent) return std::nullopt;
  ask_ = Ask::kWithdrawn;
  return EndWord::kKeep;
}

Result<std::optional<EndWord>> EndAgreement::on_word(EndWord word, bool busy) {
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
