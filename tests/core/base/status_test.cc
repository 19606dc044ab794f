#include "core/base/status.h"

#include <doctest/doctest.h>

namespace ronde {

TEST_CASE("Status: success carries nothing") {
  const Status ok;
  CHECK(ok.ok());
  CHECK(ok.code() == Code::kOk);
  CHECK(ok.message().empty());
  CHECK(ok.to_string() == "ok");
}

TEST_CASE("Status: an error keeps code, message, origin and rank through context") {
  const Status error = Status(Code::kRankFailure, "rank 3 died").about({3, "node1", 42});
  const Status outer = error.with_context("allreduce \"w\"");
  CHECK(outer.code() == Code::kRankFailure);
  CHECK(outer.message() == "allreduce \"w\": rank 3 died");
  CHECK(outer.failed_rank()->pid == 42);
  CHECK(outer.origin().find("status_test.cc") != std::string::npos);
  CHECK(outer.to_string() == "rank failure: allreduce \"w\": rank 3 died");
}

namespace {
Result<int> half_of(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd");
  return value / 2;
}
Status quarter(int value, int& out) {
  RONDE_ASSIGN_OR_RETURN(const int half, half_of(value));
  RONDE_ASSIGN_OR_RETURN(out, half_of(half));
  return {};
}
}  // namespace

TEST_CASE("Result: errors leave the function that met them") {
  int out = 0;
  CHECK(quarter(8, out).ok());
  CHECK(out == 2);
  CHECK(quarter(6, out).message() == "odd");
}

}  // namespace ronde
