// The exceptions of the C++ API. Each kind has a class of its own: its name is what a program
// prints that catches nothing.
#pragma once

#include <stdexcept>
#include <string>

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

/// A value the caller passed or set is not allowed.
class RONDE_API InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message) : Error(Code::kInvalidArgument, message) {}
};

/// Ranks disagree about one operation. The job stays usable.
class RONDE_API Mismatch : public Error {
 public:
  explicit Mismatch(const std::string& message) : Error(Code::kMismatch, message) {}
};

/// A name was submitted again while its first submission was in flight.
class RONDE_API DuplicateName : public Error {
 public:
  explicit DuplicateName(const std::string& message) : Error(Code::kDuplicateName, message) {}
};

/// Some ranks did not submit the operation within the limit set.
class RONDE_API Stalled : public Error {
 public:
  explicit Stalled(const std::string& message) : Error(Code::kStalled, message) {}
};

/// A deadline passed.
class RONDE_API Timeout : public Error {
 public:
  explicit Timeout(const std::string& message) : Error(Code::kTimeout, message) {}
};

/// The wait ended because the group is broken or shutting down.
class RONDE_API Aborted : public Error {
 public:
  explicit Aborted(const std::string& message) : Error(Code::kAborted, message) {}
};

/// A signal, or Job::interrupt(), asked the waiting caller to return.
class RONDE_API Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(Code::kInterrupted, message) {}
};

/// Called before init or after shutdown.
class RONDE_API NotInitialized : public Error {
 public:
  explicit NotInitialized(const std::string& message) : Error(Code::kNotInitialized, message) {}
};

/// No data plane here can do this.
class RONDE_API Unsupported : public Error {
 public:
  explicit Unsupported(const std::string& message) : Error(Code::kUnsupported, message) {}
};

/// Memory, descriptors or space ran out.
class RONDE_API ResourceExhausted : public Error {
 public:
  explicit ResourceExhausted(const std::string& message)
      : Error(Code::kResourceExhausted, message) {}
};

/// A peer runs another Ronde version.
class RONDE_API VersionMismatch : public Error {
 public:
  explicit VersionMismatch(const std::string& message) : Error(Code::kVersionMismatch, message) {}
};

/// A peer, library or device could not be reached.
class RONDE_API Unavailable : public Error {
 public:
  explicit Unavailable(const std::string& message) : Error(Code::kUnavailable, message) {}
};

/// A bug in Ronde.
class RONDE_API Internal : public Error {
 public:
  explicit Internal(const std::string& message) : Error(Code::kInternal, message) {}
};

/// Values that were reduced are not finite, and RONDE_CHECK_NONFINITE is "fail". The text names
/// the rank whose input they were. The job stays usable.
class RONDE_API NonFinite : public Error {
 public:
  explicit NonFinite(const std::string& message) : Error(Code::kNonfinite, message) {}
};

/// Data changed on its way between two ranks (RONDE_CHECKSUMS). The text names both, and which
/// bytes of which operation. The job is broken on all ranks.
class RONDE_API Corrupted : public Error {
 public:
  explicit Corrupted(const std::string& message) : Error(Code::kCorrupted, message) {}
};

}  // namespace ronde
