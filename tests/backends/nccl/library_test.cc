#include "backends/nccl/library.h"

#include <doctest/doctest.h>

#include "tests/support/cuda_fake/nccl_fake.h"

namespace ronde::test {

TEST_CASE("nccl: where it is missing, the error has the linker's message") {
  const Status status = nccl::load_api("libnccl_of_nobody.so.2").status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().rfind("NCCL not found: libnccl_of_nobody.so.2", 0) == 0);
}

TEST_CASE("nccl: a library that lacks an entry point is too old") {
  const Status status = nccl::load_api("libc.so.6").status();
  CHECK(status.code() == Code::kVersionMismatch);
  CHECK(status.message() == "libc.so.6 has no ncclGetVersion: NCCL 2.18.0 or newer is needed");
}

TEST_CASE("nccl: a version that is too old is named") {
  cuda_fake::set_nccl_version(21703);
  const Status status = nccl::check_version(cuda_fake::nccl_fake());
  cuda_fake::set_nccl_version(23003);
  CHECK(status.code() == Code::kVersionMismatch);
  CHECK(status.message() == "NCCL 2.17.3 is too old: 2.18.0 or newer is needed");
}

TEST_CASE("nccl: a version older than the headers will do, if it is not too old") {
  cuda_fake::set_nccl_version(21801);
  CHECK(nccl::check_version(cuda_fake::nccl_fake()).ok());
  cuda_fake::set_nccl_version(23003);
}

}  // namespace ronde::test
