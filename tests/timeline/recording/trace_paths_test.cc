#include "timeline/recording/trace_paths.h"

#include <doctest/doctest.h>

#include "tests/timeline/scratch.h"

namespace ronde {

TEST_CASE("trace paths: each rank's name is made from the one asked for") {
  CHECK(rank_trace_path("trace.json", 3) == "trace.rank3.json");
  CHECK(rank_trace_path("/a.b/trace", 0) == "/a.b/trace.rank0");
  CHECK(rank_trace_path("x/my.trace.json", 12) == "x/my.trace.rank12.json");
  CHECK(rank_trace_path("a/trace.json.gz", 1) == "a/trace.rank1.json.gz");
  CHECK(rank_trace_path("trace.pftrace", 1) == "trace.rank1.json");
  CHECK(rank_trace_path("trace.perfetto-trace.gz", 1) == "trace.rank1.json.gz");
}

TEST_CASE("trace paths: a worker has a file of its own in each epoch, and so has the launcher") {
  CHECK(worker_trace_path("a/t.json", 4, 3) == "a/t.worker4.epoch3.json");
  CHECK(worker_trace_path("t.pftrace.gz", 4, 3) == "t.worker4.epoch3.json.gz");
  CHECK(epochs_trace_path("a/t.json") == "a/t.epochs.json");
}

TEST_CASE("trace paths: parts of a trace come in their order, its newest file last") {
  const ScratchFolder scratch;
  const std::string own = scratch.file("t.rank0.json");
  for (const int part : {12, 3}) scratch.write(trace_part_path("t.rank0.json", part), "");
  for (const char* other : {"t.rank0.json", "t.rank1.json", "t.rank0.partx.json", "t.rank00.json",
                            "t.rank0.part0007.txt"}) {
    scratch.write(other, "");
  }
  CHECK(trace_files(own) == std::vector{trace_part_path(own, 3), trace_part_path(own, 12), own});
}

TEST_CASE("trace paths: the traces of workers are found, by worker and epoch") {
  const ScratchFolder scratch;
  for (const char* file :
       {"t.worker10.epoch1.json", "t.worker2.epoch11.json", "t.worker2.epoch3.json",
        "t.worker2.epoch3.part0001.json", "t.worker.epoch3.json", "t.worker2.epoch.json",
        "t.rank0.json", "t.epochs.json", "other.worker1.epoch1.json", "t.worker1.epoch1.json.gz"}) {
    scratch.write(file, "");
  }
  const auto found = find_worker_traces(scratch.file("t.json"));
  REQUIRE(found.size() == 3);
  CHECK(found[0].worker == 2);
  CHECK(found[0].epoch == 3);
  CHECK(found[0].path == scratch.file("t.worker2.epoch3.json"));
  CHECK(found[1].epoch == 11);
  CHECK(found[2].worker == 10);
  CHECK(find_worker_traces(scratch.file("t.json.gz")).size() == 1);
  CHECK(find_worker_traces(scratch.file("none/t.json")).empty());
}

}  // namespace ronde
