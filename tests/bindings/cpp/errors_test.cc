// The exceptions of the C++ API: a class for each kind, whose name people can read.
#include <cxxabi.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

#include "ronde/error.h"

namespace ronde {
namespace {

/// The name that a program prints which catches nothing.
std::string printed_name(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return name.get();
}

/// The name of an exception's class, which has this code.
template <typename Kind>
std::string name_of(Code code) {
  const Kind error("why");
  CHECK(error.code() == code);
  CHECK(std::string(error.what()) == "why");
  return printed_name(error);
}

TEST_CASE("errors: each kind has a class with a readable name") {
  CHECK(name_of<InvalidArgument>(Code::kInvalidArgument) == "ronde::InvalidArgument");
  CHECK(name_of<Mismatch>(Code::kMismatch) == "ronde::Mismatch");
  CHECK(name_of<DuplicateName>(Code::kDuplicateName) == "ronde::DuplicateName");
  CHECK(name_of<Stalled>(Code::kStalled) == "ronde::Stalled");
  CHECK(name_of<Timeout>(Code::kTimeout) == "ronde::Timeout");
  CHECK(name_of<Aborted>(Code::kAborted) == "ronde::Aborted");
  CHECK(name_of<Interrupted>(Code::kInterrupted) == "ronde::Interrupted");
  CHECK(name_of<NotInitialized>(Code::kNotInitialized) == "ronde::NotInitialized");
  CHECK(name_of<Unsupported>(Code::kUnsupported) == "ronde::Unsupported");
  CHECK(name_of<ResourceExhausted>(Code::kResourceExhausted) == "ronde::ResourceExhausted");
  CHECK(name_of<VersionMismatch>(Code::kVersionMismatch) == "ronde::VersionMismatch");
  CHECK(name_of<Unavailable>(Code::kUnavailable) == "ronde::Unavailable");
  CHECK(name_of<Internal>(Code::kInternal) == "ronde::Internal");
  CHECK(name_of<NonFinite>(Code::kNonfinite) == "ronde::NonFinite");
  CHECK(name_of<Corrupted>(Code::kCorrupted) == "ronde::Corrupted");
  CHECK(printed_name(RankFailure("rank 1 died", {1, "host", 7})) == "ronde::RankFailure");
}

}  // namespace
}  // namespace ronde
