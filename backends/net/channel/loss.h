// The loss of a rank, as ranks tell it each other.
#pragma once

#include <cstdint>

namespace ronde::net {

/// How a rank was lost.
enum class Loss : std::uint8_t {
  kLeft,         ///< It left the job on purpose.
  kDied,         ///< A rank of its host saw it end.
  kClosed,       ///< Its connection closed without a goodbye.
  kUnreachable,  ///< Its host acknowledged nothing for the link timeout.
  kAltered,      ///< Its connection delivered what it did not send, see records.h.
  kFrozen,       ///< It did not run for the freeze timeout.
};

/// True if the job is broken by it.
constexpr bool breaks(Loss how) noexcept { return how != Loss::kLeft; }

/// One lost rank of the job.
struct LostRank {
  int rank = -1;
  Loss how{};
  int reporter = -1;  ///< The rank that found it.

  static void fields(auto& wire, auto& self) { wire(self.rank, self.how, self.reporter); }
  friend bool operator==(const LostRank&, const LostRank&) = default;
};

}  // namespace ronde::net
