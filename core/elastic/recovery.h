// What errors of an epoch lead to: for the training loops of all bindings, and for shrink_group().
#pragma once

#include <cstdint>

#include "core/base/status.h"

namespace ronde::elastic {

/// What follows an error. Changes of the job's workers are no errors: the state is kept then.
enum class Recovery : std::uint8_t {
  kNone,     ///< It would come again in the next epoch, and so ends the training.
  kRestore,  ///< The next epoch goes on from the last commit.
  kReplace,  ///< Likewise. Nothing succeeds any more in the job in which it came.
};

/// What follows an error of this kind.
[[nodiscard]] constexpr Recovery recovery_of(Code code) noexcept {
  switch (code) {
    case Code::kDuplicateName:
    case Code::kInterrupted:
    case Code::kInvalidArgument:
    case Code::kMismatch:
    case Code::kNonfinite:
    case Code::kNotInitialized:
    case Code::kUnsupported:
    case Code::kVersionMismatch:
      return Recovery::kNone;
    case Code::kAborted:
    case Code::kCorrupted:
    case Code::kRankFailure:
      return Recovery::kReplace;
    default:
      return Recovery::kRestore;
  }
}

}  // namespace ronde::elastic
