#include "bindings/cpp/internal.h"
#include "bindings/exit_log/exit_log.h"
#include "ronde/error.h"

namespace ronde {

void throw_if_error(const Status& status) {
  if (status.ok()) return;
  const std::string text = with_exit(status).message();
  switch (status.code()) {
    case Code::kRankFailure:
      throw RankFailure(text, status.failed_rank().value_or(FailedRank{}));
    case Code::kInvalidArgument:
      throw InvalidArgument(text);
    case Code::kMismatch:
      throw Mismatch(text);
    case Code::kDuplicateName:
      throw DuplicateName(text);
    case Code::kStalled:
      throw Stalled(text);
    case Code::kTimeout:
      throw Timeout(text);
    case Code::kAborted:
      throw Aborted(text);
    case Code::kInterrupted:
      throw Interrupted(text);
    case Code::kNotInitialized:
      throw NotInitialized(text);
    case Code::kUnsupported:
      throw Unsupported(text);
    case Code::kResourceExhausted:
      throw ResourceExhausted(text);
    case Code::kVersionMismatch:
      throw VersionMismatch(text);
    case Code::kUnavailable:
      throw Unavailable(text);
    case Code::kInternal:
      throw Internal(text);
    case Code::kNonfinite:
      throw NonFinite(text);
    case Code::kCorrupted:
      throw Corrupted(text);
    default:
      throw Error(status.code(), text);  // of a newer version
  }
}

}  // namespace ronde
