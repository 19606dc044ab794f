#include "core/protocol/member.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "tests/core/protocol/meeting.h"

namespace ronde {
namespace {

const Collective kAllKinds[] = {
    Collective::kAllreduce,     Collective::kAllgather, Collective::kBroadcast,
    Collective::kReduceScatter, Collective::kAlltoall,  Collective::kReduce,
    Collective::kGather,        Collective::kScatter,   Collective::kBarrier};

}  // namespace

TEST_CASE("Member: an operation comes out everywhere once all ranks have submitted it") {
  TestJob job(3);
  for (int step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      for (int other = 0; other < 3; ++other) CHECK(job.take(other).empty());
      CHECK(job.at(rank).pending() == 0);
      REQUIRE(job.at(rank).submit(allreduce("w"), 7, {}).ok());
      CHECK(job.at(rank).pending() == 1);
      job.deliver();
    }
    for (int rank = 0; rank < 3; ++rank) {
      const std::vector<Agreed> items = job.take(rank);
      REQUIRE(items.size() == 1);
      CHECK(items[0].status.ok());
      CHECK(items[0].ticket == 7);
      CHECK(items[0].request.name == "w");
      CHECK(job.at(rank).pending() == 0);
    }
  }
  CHECK(job.at(0).stats().full_agreements == 1);
  CHECK(job.at(2).stats().cached_agreements == 2);
}

TEST_CASE("Member: every kind is cached, named and unnamed") {
  for (const Collective kind : kAllKinds) {
    CAPTURE(to_string(kind));
    for (const std::string name : {"w", ""}) {
      TestJob job(4, 2);
      for (int step = 0; step < 3; ++step) {
        CHECK(meet(job, request_for(kind, name), request_for(kind, name)).status.ok());
      }
      CHECK(job.at(3).stats().full_agreements == 1);
      CHECK(job.at(3).stats().cached_agreements == 2);
    }
  }
}

TEST_CASE("Member: extents that may differ by nature do, and each rank gets its own") {
  for (const Collective kind :
       {Collective::kAllgather, Collective::kGather, Collective::kAlltoall}) {
    TestJob job(2);
    for (std::int64_t step = 1; step <= 2; ++step) {
      REQUIRE(job.at(0).submit(request_for(kind, "g", {step, 4}), 1, {}).ok());
      REQUIRE(job.at(1).submit(request_for(kind, "g", {10 * step, 4}), 2, {}).ok());
      job.deliver();
      CHECK(job.take(0).at(0).request.tensors[0].shape == Shape{step, 4});
      CHECK(job.take(1).at(0).request.tensors[0].shape == Shape{10 * step, 4});
    }
    CHECK(job.at(1).stats().cached_agreements == 1);
  }
}

TEST_CASE("Member: each disagreement is one error that names ranks, values and call sites") {
  const std::string site = " (train.py:10)";
  CHECK(mismatch(allreduce("w"),
                 [](Request& r) {
                   r.tensors[0].shape = {2, 4};
                 }) ==
        "allreduce \"w\": rank 0 submitted shape [2, 3] (train.py:10), rank 1 submitted shape "
        "[2, 4] (train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.kind = Collective::kBroadcast; }) ==
        "operation \"w\": rank 0 submitted allreduce (train.py:10), rank 1 submitted broadcast "
        "(train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.tensors[0].dtype = DType::kInt32; }) ==
        "allreduce \"w\": rank 0 submitted dtype float32 (train.py:10), rank 1 submitted dtype "
        "int32 (train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.op = ReduceOp::kMax; }) ==
        "allreduce \"w\": rank 0 submitted op sum (train.py:10), rank 1 submitted op max "
        "(train.py:10)");
  CHECK(mismatch(request_for(Collective::kBroadcast, "w"), [](Request& r) { r.root = 1; }) ==
        "broadcast \"w\": rank 0 submitted root 0 (train.py:10), rank 1 submitted root 1 "
        "(train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.prescale = 0.5; }) ==
        "allreduce \"w\": rank 0 submitted prescale 1 (train.py:10), rank 1 submitted prescale 0.5 "
        "(train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.postscale = 2; }) ==
        "allreduce \"w\": rank 0 submitted postscale 1 (train.py:10), rank 1 submitted postscale 2 "
        "(train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.compression = "fp16"; }) ==
        "allreduce \"w\": rank 0 submitted compression \"\" (train.py:10), rank 1 submitted "
        "compression \"fp16\" (train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.device.kind = DeviceKind::kCuda; }) ==
        "allreduce \"w\": rank 0 submitted device cpu (train.py:10), rank 1 submitted device cuda "
        "(train.py:10)");
  CHECK(mismatch(allreduce("w"), [](Request& r) { r.tensors.push_back({}); }) ==
        "allreduce \"w\": rank 0 submitted 1 tensors (train.py:10), rank 1 submitted 2 tensors "
        "(train.py:10)");
}

TEST_CASE("Member: ranks that run other programs are told, also of known operations") {
  TestJob job(2);
  Request one = allreduce("w");
  Request other = one;
  one.program = "a graph of 1 allreduce";
  other.program = "a graph of 2 allreduce";
  CHECK(meet(job, one, one).status.ok());
  CHECK(meet(job, one, other).status.message() ==
        "allreduce \"w\": rank 0 submitted it as part of a graph of 1 allreduce (train.py:10), "
        "rank 1 submitted it as part of a graph of 2 allreduce (train.py:10)");
  CHECK(meet(job, other, other).status.ok());
  CHECK(meet(job, allreduce("w"), one).status.ok());  // who does not know fits
}

TEST_CASE("Member: a disagreement deep in the tree names the two ranks that differ") {
  TestJob job(9, 3);
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 9; ++rank) {
      Request request = allreduce("w");
      if (rank == 7 && step == 1) request.tensors[0].shape = {9};
      REQUIRE(job.at(rank).submit(request, 1, {}).ok());
    }
    job.deliver();
    for (int rank = 0; rank < 9; ++rank) {
      const Agreed item = job.take(rank).at(0);
      if (step == 0) continue;
      CHECK(item.status.code() == Code::kMismatch);
      CHECK(item.status.message().find("rank 7 submitted shape [9]") != std::string::npos);
    }
  }
}

TEST_CASE("Member: unnamed operations match in order, and differences are errors") {
  TestJob job(2);
  CHECK(meet(job, allreduce(""), allreduce("")).status.ok());
  const Agreed failed = meet(job, allreduce(""), request_for(Collective::kBarrier, ""));
  CHECK(failed.status.code() == Code::kMismatch);
  CHECK(failed.status.message() ==
        "unnamed operation number 2: rank 0 submitted allreduce (train.py:10), rank 1 submitted "
        "barrier (train.py:10)");
  CHECK(meet(job, allreduce(""), allreduce("")).status.ok());
  CHECK(job.at(0).stats().cached_agreements == 1);
}

TEST_CASE("Member: a root outside the process set is an error on all ranks") {
  TestJob job(2);
  Request request = request_for(Collective::kBroadcast, "w");
  request.root = 2;
  const Agreed failed = meet(job, request, request);
  CHECK(failed.status.code() == Code::kInvalidArgument);
  CHECK(failed.status.message().find("submitted root 2") != std::string::npos);
}

TEST_CASE("Member: a name submitted again in flight fails on all ranks with both call sites") {
  for (const bool warm : {false, true}) {
    for (const int twice : {0, 1, 3}) {
      TestJob job(4, 2);
      if (warm) CHECK(meet(job, allreduce("w"), allreduce("w")).status.ok());
      REQUIRE(job.at(twice).submit(allreduce("w"), 1, {}).ok());
      job.deliver();
      Request again = allreduce("w");
      again.call_site = "train.py:20";
      const Status refused = job.at(twice).submit(again, 2, {});
      CHECK(refused.code() == Code::kDuplicateName);
      job.deliver();
      for (int rank = 0; rank < 4; ++rank) {
        CHECK(job.take(rank).empty());  // fails once all have submitted it, not before
        if (rank != twice) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
      }
      job.deliver();
      for (int rank = 0; rank < 4; ++rank) {
        const Agreed item = job.take(rank).at(0);
        CHECK(item.ticket == 1);
        CHECK(item.status.code() == Code::kDuplicateName);
        CHECK(item.status.message() ==
              fmt::format("allreduce \"w\": rank {} submitted it (train.py:10) and again "
                          "(train.py:20) while it was in flight",
                          twice));
      }
      CHECK(meet(job, allreduce("w"), allreduce("w")).status.ok());
    }
  }
}

TEST_CASE("Member: a doubled name that completes in the same moment still fails") {
  TestJob job(1);
  REQUIRE(job.at(0).submit(allreduce("w"), 1, {}).ok());
  CHECK(job.at(0).submit(allreduce("w"), 2, {}).code() == Code::kDuplicateName);
  const std::vector<Agreed> items = job.take(0);
  REQUIRE(items.size() == 1);
  CHECK(items[0].ticket == 1);
  CHECK(items[0].status.code() == Code::kDuplicateName);
}

TEST_CASE("Member: join comes out when all have joined and names the last") {
  TestJob job(3);
  REQUIRE(job.at(2).join(9).ok());
  CHECK(job.at(2).pending() == 1);
  CHECK(job.at(2).join(9).code() == Code::kInvalidArgument);
  CHECK(job.at(2).submit(allreduce("late"), 3, {}).code() == Code::kInvalidArgument);
  for (const int rank : {0, 1}) REQUIRE(job.at(rank).submit(allreduce("w"), 4, {}).ok());
  job.deliver();
  CHECK(job.take(0).at(0).ticket == 4);
  CHECK(job.take(2).at(0).ticket == 0);
  REQUIRE(job.at(0).join(9).ok());
  job.deliver();
  REQUIRE(job.at(1).join(9).ok());
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Agreed> items = job.take(rank);
    REQUIRE(items.size() == (rank == 1 ? 2 : 1));
    CHECK(items.back().request.kind == Collective::kJoin);
    CHECK(items.back().ticket == 9);
    CHECK(items.back().last_joined == 1);
    CHECK(job.at(rank).pending() == 0);
  }
  CHECK(meet(job, allreduce("w"), allreduce("w")).status.ok());
}

TEST_CASE("Member: higher priority comes first in a batch, readiness decides among equals") {
  TestJob job(2);
  for (int step = 0; step < 2; ++step) {  // in full, then from the cache
    for (int rank = 0; rank < 2; ++rank) {
      for (const char* name : {"a", "b", "c"}) {
        Request request = allreduce(name);
        request.priority = name[0] == 'b' ? 5 : 0;
        REQUIRE(job.at(rank).submit(request, 1, {}).ok());
      }
    }
    job.deliver();
    const std::vector<Agreed> items = job.take(1);
    REQUIRE(items.size() == 3);
    CHECK(items[0].request.name == "b");
    CHECK(items[1].request.name == "a");
    CHECK(items[2].request.name == "c");
  }
}

TEST_CASE("Member: all ranks learn the coordinator's priority, whatever their own") {
  TestJob job(3);
  for (int step = 0; step < 2; ++step) {  // in full, then from the cache
    for (int rank = 0; rank < 3; ++rank) {
      Request request = allreduce("w");
      request.priority = 10 * step + rank + 1;
      REQUIRE(job.at(rank).submit(allreduce("v"), 1, {}).ok());
      REQUIRE(job.at(rank).submit(request, 2, {}).ok());
    }
    job.deliver();
    for (int rank = 0; rank < 3; ++rank) {
      const std::vector<Agreed> items = job.take(rank);
      REQUIRE(items.size() == 2);
      CHECK(items[0].request.name == "w");
      CHECK(items[0].priority == 10 * step + 1);
      CHECK(items[1].priority == 0);
    }
  }
}

TEST_CASE("Member: what the coordinator lets go reaches all ranks, after what was agreed") {
  TestJob job(3);
  CHECK(job.at(0).coordinates());
  CHECK_FALSE(job.at(1).coordinates());
  for (int rank = 0; rank < 3; ++rank) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
  job.deliver();
  job.at(0).release(2);
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Batch> batches;
    job.at(rank).take_batches(batches);
    REQUIRE(batches.size() == 2);
    CHECK(batches[0].released == 0);
    CHECK(batches[1].released == 2);
    CHECK(batches[1].items.empty());
  }
  CHECK(job.refused() == 0);
}

TEST_CASE("Member: one new tensor leaves the known ones on the fast path") {
  TestJob job(2);
  for (int step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 100 + step; ++i) {
        REQUIRE(job.at(rank).submit(allreduce(fmt::format("t{}", i)), 1, {}).ok());
      }
    }
    job.deliver();
    CHECK(job.take(1).size() == static_cast<std::size_t>(100 + step));
  }
  CHECK(job.at(1).stats().full_agreements == 102);
  CHECK(job.at(1).stats().cached_agreements == 201);
}

TEST_CASE("Member: submissions between two calls of take_frames travel in one frame") {
  TestJob job(2);
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 160; ++i) {
        REQUIRE(job.at(rank).submit(allreduce(fmt::format("t{}", i)), 1, {}).ok());
      }
    }
    CHECK(job.deliver() == 2);  // a tick and a batch
  }
}

TEST_CASE("Member: groups too large for one frame travel in several") {
  TestJob job(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 5; ++i) {
      Request request = allreduce(fmt::format("group{}", i));
      request.tensors.assign(11'000, {DType::kFloat32, {1, 2, 3, 4}});
      REQUIRE(validate(request).ok());
      REQUIRE(job.at(rank).submit(request, 1, {}).ok());
    }
  }
  job.deliver();
  CHECK(job.refused() == 0);
  CHECK(job.bytes() > 6 * (std::size_t{1} << 20));
  CHECK(job.largest_frame() <= (std::size_t{1} << 20));
  for (int rank = 0; rank < 3; ++rank) CHECK(job.take(rank).size() == 5);
}

TEST_CASE("Member: pending operations are described with the ranks known to be missing") {
  TestJob job(3);
  for (const int rank : {0, 2}) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
  job.deliver();
  CHECK(job.at(0).describe_pending() ==
        std::vector<std::string>{"allreduce \"w\": not yet heard from or through ranks 1"});
  CHECK(job.at(2).describe_pending() == std::vector<std::string>{"allreduce \"w\""});
}

TEST_CASE("Member: frames that no neighbour may send are refused and change nothing") {
  TestJob job(3);
  REQUIRE(job.at(1).submit(allreduce("w"), 1, {}).ok());
  std::vector<OutFrame> ticks;
  job.at(1).take_frames(ticks);
  REQUIRE(ticks.size() == 1);
  CHECK(job.at(2).on_frame(1, ticks[0].bytes, {}).code() == Code::kInvalidArgument);
  CHECK(job.at(0).on_frame(7, ticks[0].bytes, {}).code() == Code::kInvalidArgument);
  CHECK(job.at(0).on_frame(1, {}, {}).code() == Code::kInvalidArgument);
  const std::vector<std::byte> large((std::size_t{1} << 20) + 1);
  CHECK(job.at(0).on_frame(1, large, {}).code() == Code::kInvalidArgument);
  CHECK(job.at(0).on_frame(1, ticks[0].bytes, {}).ok());
  for (const int rank : {0, 2}) REQUIRE(job.at(rank).submit(allreduce("w"), 1, {}).ok());
  std::vector<OutFrame> to_root;
  job.at(2).take_frames(to_root);
  CHECK(job.at(0).on_frame(2, to_root.at(0).bytes, {}).ok());
  std::vector<OutFrame> batches;
  job.at(0).take_frames(batches);
  REQUIRE(batches.size() == 2);
  CHECK(job.at(1).on_frame(2, batches[0].bytes, {}).code() == Code::kInvalidArgument);
  CHECK(job.at(1).on_frame(0, batches[0].bytes, {}).ok());
  CHECK(job.at(1).on_frame(0, batches[0].bytes, {}).code() == Code::kInvalidArgument);  // again
  CHECK(job.take(1).size() == 1);
}

}  // namespace ronde
