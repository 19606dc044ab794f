// The exceptions of the C++ API.
#pragma once

#include <stdexcept>
#include <string>

#include "core/base/export.h"
#include "core/base/status.h"

namespace ronde {

/// Base of all exceptions of Ronde.
class RONDE_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  /// The kind of error; each kind below has its own type as well.
  [[nodiscard]] Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// A rank died, was cut off, or left while it was needed.
class RONDE_API RankFailure : public Error {
 public:
  RankFailure(const std::string& message, FailedRank who)
      : Error(Code::kRankFailure, message), who_(std::move(who)) {}
  [[nodiscard]] int rank() const noexcept { return who_.rank; }  ///< -1 where unknown.
  [[nodiscard]] const std::string& host() const noexcept { return who_.host; }
  [[nodiscard]] int pid() const noexcept { return who_.pid; }  ///< 0 where unknown.

 private:
  FailedRank who_;
};

/// The remaining kinds, each with one code.
template <Code kCode>
class RONDE_API ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message) : Error(kCode, message) {}
};
using InvalidArgument = ErrorOf<Code::kInvalidArgument>;
using Mismatch = ErrorOf<Code::kMismatch>;
using DuplicateName = ErrorOf<Code::kDuplicateName>;
using Stalled = ErrorOf<Code::kStalled>;
using Timeout = ErrorOf<Code::kTimeout>;
using Interrupted = ErrorOf<Code::kInterrupted>;
using NotInitialized = ErrorOf<Code::kNotInitialized>;
using Unsupported = ErrorOf<Code::kUnsupported>;

}  // namespace ronde
