#include <doctest/doctest.h>

#include "bindings/cli/doctor.h"
#include "tests/support/contains.h"

namespace ronde {

using test::contains;

TEST_CASE("doctor: the id of an elastic job's epoch tells the job and the epoch") {
  CHECK(job_of_epoch("0123456789abcdef-12") == "0123456789abcdef");
  CHECK(epoch_of("0123456789abcdef-12") == 12);
  for (const char* other : {"", "job-1", "0123456789abcdef", "0123456789abcdef-",
                            "0123456789abcdeX-1", "0123456789abcdef-1x", "0123456789abcdef0-1"}) {
    CAPTURE(other);
    CHECK(epoch_of(other) == 0);
    CHECK(job_of_epoch(other) == other);
  }
}

TEST_CASE("doctor: a launcher's status is told for people, those who are gone with their end") {
  const auto answer =
      read_status(R"({"launcher":9,"job":"ab","epoch":3,"open":true,"awaits":"","workers":[)"
                  R"({"worker":4,"host":"h","pid":77,"rank":1,"state":"works","leaving":true}],)"
                  R"("gone":[{"worker":2,"epoch":1,"why":"was killed"}]})");
  REQUIRE(answer);
  CHECK(answer->job == "ab-3");
  CHECK(answer->workers.at(77) == 4);
  CHECK(answer->text ==
        "job ab: elastic, epoch 3; its launcher: pid 9\n"
        "worker 4, pid 77 on h: works, rank 1, was asked to leave\n"
        "worker 2: is gone since epoch 1: was killed\n");
}

TEST_CASE("doctor: a status that is malformed is none") {
  for (const char* text : {"", "x", "[]", "{}", R"({"job":1})"}) {
    CAPTURE(text);
    CHECK_FALSE(read_status(text));
  }
}

}  // namespace ronde
