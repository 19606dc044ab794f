#include "core/elastic/recovery.h"

namespace ronde::elastic {

Recovery recovery_of(Code code) noexcept {
  switch (code) {
    case Code::kDuplicateName:
    case Code::kInterrupted:
    case Code::kInvalidArgument:
    case Code::kMismatch:
    case Code::kNotInitialized:
    case Code::kUnsupported:
    case Code::kVersionMismatch:
      return Recovery::kNone;
    case Code::kAborted:
    case Code::kRankFailure:
      return Recovery::kReplace;
    default:
      return Recovery::kRestore;
  }
}

}  // namespace ronde::elastic
