#include "core/protocol/inline_payload.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/protocol/payloads.h"

namespace ronde {
namespace {

/// Submits `request` on all ranks but those in `without`. Rank r brings 2^r in every element.
void submit_all(TestJob& job, const Request& request, const std::vector<int>& without = {}) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (std::count(without.begin(), without.end(), rank) != 0) continue;
    const auto value = static_cast<float>(1 << rank);
    REQUIRE(job.at(rank).submit(request, 5, {}, payload_of(request, rank, value)).ok());
  }
}

/// The result that all ranks agreed on, which is the same; empty where it moves as others do.
std::vector<std::byte> result(TestJob& job) {
  job.deliver();
  CHECK(job.refused() == 0);
  std::vector<std::byte> first;
  for (int rank = 0; rank < job.size(); ++rank) {
    const std::vector<Agreed> items = job.take(rank);
    REQUIRE(items.size() >= 1);
    CHECK(items[0].status.ok());
    if (rank == 0) first = items[0].result;
    CHECK(items[0].result == first);
  }
  return first;
}

std::vector<std::byte> six(float value) { return bytes_of_floats(std::vector<float>(6, value)); }

}  // namespace

TEST_CASE("InlinePayload: all ranks get the sum with the agreement, cached or not, named or not") {
  for (const std::string name : {"w", ""}) {
    for (const int per_host : {1, 2, 4}) {
      TestJob job(9, per_host, carrying(1024));
      for (int step = 0; step < 3; ++step) {
        submit_all(job, allreduce(name));
        CHECK(result(job) == six(511));
      }
      CHECK(job.at(8).stats().payloads == 3);
      CHECK(job.at(8).stats().full_agreements == 1);
    }
  }
}

TEST_CASE("InlinePayload: a broadcast brings the root's data alone") {
  TestJob job(5, 2, carrying(1024));
  Request request = request_for(Collective::kBroadcast, "w");
  request.root = 3;
  for (int step = 0; step < 2; ++step) {
    submit_all(job, request);
    CHECK(result(job) == six(8));
  }
}

TEST_CASE("InlinePayload: a rank that has joined takes part with zeros, and is not waited for") {
  TestJob job(5, 2, carrying(1024));
  for (int step = 0; step < 2; ++step) {
    REQUIRE(job.at(3).join(9).ok());
    submit_all(job, allreduce("w"), {3});
    CHECK(result(job) == six(23));
    for (const int rank : {0, 1, 2, 4}) REQUIRE(job.at(rank).join(9).ok());
    job.deliver();
    for (int rank = 0; rank < 5; ++rank) CHECK(job.take(rank).at(0).last_joined >= 0);
  }
}

TEST_CASE("InlinePayload: where one rank brings no data, all ranks move it as before") {
  for (const std::string name : {"w", ""}) {
    TestJob job(9, 2, carrying(1024));
    for (int without = -1; without < 9; ++without) {
      submit_all(job, allreduce(name), {without});
      if (without >= 0) REQUIRE(job.at(without).submit(allreduce(name), 5, {}).ok());
      CHECK(result(job).empty() == (without >= 0));
    }
  }
}

TEST_CASE("InlinePayload: tensors of one request are reduced one by one") {
  TestJob job(2, 1, carrying(1024));
  Request request = allreduce("w", {2});
  request.tensors.push_back({DType::kFloat32, {3}});
  submit_all(job, request);
  CHECK(result(job) == bytes_of_floats({3, 3, 3, 3, 3}));
}

TEST_CASE("InlinePayload: ranks that differ get one error and no result") {
  TestJob job(3, 1, carrying(1024));
  submit_all(job, allreduce("w"));
  CHECK(result(job) == six(7));
  submit_all(job, allreduce("w"), {1});
  const Request other = allreduce("w", {5});
  REQUIRE(job.at(1).submit(other, 5, {}, payload_of(other, 1, 2)).ok());
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    const Agreed agreed = job.take(rank).at(0);
    CHECK(agreed.status.code() == Code::kMismatch);
    CHECK(agreed.result.empty());
  }
  submit_all(job, allreduce("w"));
  CHECK(result(job) == six(7));
  CHECK(job.refused() == 0);
}

TEST_CASE("InlinePayload: a name submitted twice is an error, and its next use carries its data") {
  TestJob job(3, 1, carrying(1024));
  submit_all(job, allreduce("w"), {2});
  CHECK(job.at(1).submit(allreduce("w"), 6, {}, payload_of(allreduce("w"), 1, 2)).code() ==
        Code::kDuplicateName);
  submit_all(job, allreduce("w"), {0, 1});
  job.deliver();
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(job.take(rank).at(0).status.code() == Code::kDuplicateName);
  }
  submit_all(job, allreduce("w"));
  CHECK(result(job) == six(7));
}

TEST_CASE("InlinePayload: an operation that waits when its slot is given away keeps its data") {
  MemberOptions options = carrying(1024);
  options.cache_capacity = 1;
  TestJob job(3, 1, options);
  submit_all(job, allreduce("w"));
  CHECK(result(job) == six(7));
  submit_all(job, allreduce("w"), {2});
  job.deliver();
  submit_all(job, allreduce("v"));
  CHECK(result(job) == six(7));
  submit_all(job, allreduce("w"), {0, 1});
  CHECK(result(job) == six(7));
}

TEST_CASE("InlinePayload: a rank that leaves fails what waits with data") {
  TestJob job(3, 1, carrying(1024));
  submit_all(job, allreduce("w"), {2});
  job.deliver();
  job.at(2).leave("done");
  job.deliver();
  for (const int rank : {0, 1}) {
    CHECK(job.take(rank).at(0).status.code() == Code::kRankFailure);
  }
}

TEST_CASE("InlinePayload: only small operations in host memory of several hosts want it") {
  const Request w = allreduce("w");  // 24 bytes
  const auto wants = [&](int ranks, int per_host, std::size_t limit, const Request& request) {
    return TestJob(ranks, per_host, carrying(limit)).at(0).wants_payload(request);
  };
  CHECK(wants(4, 2, 96, w));
  CHECK_FALSE(wants(4, 2, 95, w));
  CHECK_FALSE(wants(4, 4, 96, w));
  CHECK_FALSE(wants(4, 2, 0, w));
  CHECK_FALSE(TestJob(4, 2).at(0).wants_payload(w));
  CHECK_FALSE(wants(4, 2, 96, allreduce("w", {0})));
  const auto changed = [&](auto change) {
    Request request = w;
    change(request);
    return wants(4, 2, 96, request);
  };
  CHECK(changed([](Request& r) { r.op = ReduceOp::kMax; }));
  CHECK(changed([](Request& r) { r.kind = Collective::kBroadcast; }));
  CHECK_FALSE(changed([](Request& r) { r.op = ReduceOp::kAdasum; }));
  CHECK_FALSE(changed([](Request& r) { r.kind = Collective::kAllgather; }));
  CHECK_FALSE(changed([](Request& r) { r.compression = "int8"; }));
  CHECK_FALSE(changed([](Request& r) { r.weight = 1.0; }));
  CHECK_FALSE(changed([](Request& r) { r.device.kind = DeviceKind::kCuda; }));
}

TEST_CASE("InlinePayload: the operations of one tick share the limit") {
  TestJob job(2, 1, carrying(100));
  for (int step = 0; step < 2; ++step) {
    CHECK(job.at(1).wants_payload(allreduce("a")));
    REQUIRE(job.at(1).submit(allreduce("a"), 1, {}, payload_of(allreduce("a"), 1, 1)).ok());
    CHECK(job.at(1).wants_payload(allreduce("b")));
    REQUIRE(job.at(1).submit(allreduce("b"), 2, {}, payload_of(allreduce("b"), 1, 1)).ok());
    CHECK_FALSE(job.at(1).wants_payload(allreduce("c")));
    for (const char* name : {"a", "b"}) {
      REQUIRE(job.at(0).submit(allreduce(name), 3, {}, payload_of(allreduce(name), 0, 1)).ok());
    }
    CHECK(result(job) == six(2));
  }
}

TEST_CASE("InlinePayload: few operations of one tick carry their data") {
  TestJob job(2, 1, carrying(16384));
  int wanted = 0;
  for (int i = 0; i < 100; ++i) {
    const Request request = allreduce("t" + std::to_string(i));
    const bool wants = job.at(1).wants_payload(request);
    wanted += wants ? 1 : 0;
    const InlinePayload payload = wants ? payload_of(request, 1, 1) : InlinePayload();
    REQUIRE(job.at(1).submit(request, 1, {}, payload).ok());
  }
  CHECK(wanted == 16);
}

TEST_CASE("InlinePayload: data that does not fit its operation is refused") {
  const std::vector<int> members = {1, 4, 7};
  const Request w = allreduce("w");
  InlinePayload payload = payload_of(w, 4, 1);
  CHECK(check_payload(payload, w, members).ok());
  CHECK(check_payload({}, w, members).ok());
  const auto refused = [&](auto change) {
    InlinePayload changed = payload;
    change(changed);
    return check_payload(changed, w, members).code() == Code::kInvalidArgument;
  };
  CHECK(refused([](InlinePayload& p) { p.bytes.pop_back(); }));
  CHECK(refused([](InlinePayload& p) { p.ranks[0] = 5; }));
  CHECK(refused([](InlinePayload& p) { p.ranks.push_back(7); }));
  CHECK(refused([](InlinePayload& p) { p.whole = false; }));
  CHECK(check_payload(payload, request_for(Collective::kAllgather, "w"), members).code() ==
        Code::kInvalidArgument);
}

TEST_CASE("InlinePayload: data that is there twice, or not the root's, gives no result") {
  const AddingReducer reducer;
  const std::vector<int> members = {1, 4, 7};
  const Request w = allreduce("w");
  InlinePayload twice = payload_of(w, 4, 1);
  twice.merge(payload_of(w, 4, 1));
  CHECK(combine(twice, w, members, reducer).empty());
  Request broadcast = request_for(Collective::kBroadcast, "w");
  broadcast.root = 1;
  CHECK(combine(payload_of(w, 4, 1), broadcast, members, reducer).empty());
  CHECK(combine(payload_of(w, 1, 1), broadcast, members, reducer) == six(1));
}

TEST_CASE("InlinePayload: a payload joined with a part is none") {
  const Request w = allreduce("w");
  InlinePayload payload = payload_of(w, 4, 1);
  payload.merge({});
  CHECK_FALSE(payload.whole);
  CHECK(payload.bytes.empty());
}

}  // namespace ronde
