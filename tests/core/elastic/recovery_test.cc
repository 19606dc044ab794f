#include "core/elastic/recovery.h"

#include <doctest/doctest.h>

namespace ronde::elastic {

TEST_CASE("recovery: errors that would come again end the training") {
  for (const Code code :
       {Code::kInvalidArgument, Code::kMismatch, Code::kDuplicateName, Code::kInterrupted,
        Code::kNotInitialized, Code::kUnsupported, Code::kVersionMismatch}) {
    CHECK(recovery_of(code) == Recovery::kNone);
  }
}

TEST_CASE("recovery: after other errors the next epoch restores the state") {
  for (const Code code :
       {Code::kStalled, Code::kTimeout, Code::kResourceExhausted, Code::kUnavailable,
        Code::kInternal, Code::kOk}) {  // Python's base of all errors has the code of success
    CHECK(recovery_of(code) == Recovery::kRestore);
  }
  CHECK(recovery_of(Code::kRankFailure) == Recovery::kReplace);
  CHECK(recovery_of(Code::kAborted) == Recovery::kReplace);
  CHECK(recovery_of(Code::kCorrupted) == Recovery::kReplace);
}

}  // namespace ronde::elastic
