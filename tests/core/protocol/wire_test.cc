#include "core/protocol/wire.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "tests/core/protocol/harness.h"

namespace ronde {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Frame>
std::vector<Bytes> encode(const Frame& frame) {
  std::vector<Bytes> frames;
  FrameWriter writer;
  writer.write(frame, [&](std::span<const std::byte> bytes) {
    frames.emplace_back(bytes.begin(), bytes.end());
  });
  return frames;
}

Request rich_request() {
  Request request = request_for(Collective::kReduce, "layer/weight", {4, 0, 7});
  request.tensors.push_back({DType::kBfloat16, {}});
  request.op = ReduceOp::kMax;
  request.root = 3;
  request.prescale = 0.5;
  request.postscale = -2;
  request.compression = "fp16";
  request.device.kind = DeviceKind::kCuda;
  request.priority = -7;
  request.program = "a graph";
  return request;
}

TickFrame rich_tick() {
  TickFrame tick;
  tick.acked = 12;
  tick.first_word = 3;
  tick.words = {5, 0, ~std::uint64_t{0}};
  Report report;
  report.rank = 2;
  report.request = std::make_shared<const Request>(rich_request());
  report.code = Code::kMismatch;
  report.message = "differs";
  tick.reports.push_back(report);
  tick.reports.push_back({.ordinal = 4, .slot = 9, .rank = 1, .request = {}, .message = {}});
  tick.reports[1].payload = {true, {1, 6}, {std::byte{7}, std::byte{8}}};
  tick.notices.push_back({{"w", 0}, "doubled"});
  tick.overdue.push_back({{"", 8}, true, true});
  tick.query = 6;
  tick.facts.push_back({{"w", 0}, 2, {1, 3}, 60'000, {}});
  tick.facts[0].blocked = {3, {"", 5}, Collective::kBarrier, "a.py:7", {{"v", 0}, {"", 6}}};
  tick.last_joined = 5;
  tick.leaver = 2;
  tick.farewell = "ValueError";
  return tick;
}

BatchFrame rich_batch() {
  BatchFrame batch;
  batch.sequence = 77;
  batch.order = {4, -1, -2, -3};
  batch.priorities = {0, 7, -7, 0};
  batch.released = 3;
  batch.launches = {1, std::uint64_t{5} << 32 | 7};
  batch.items.resize(3);
  batch.items[0].slot = 2;
  batch.items[0].result = {std::byte{1}, std::byte{2}, std::byte{3}};
  batch.items[0].request = std::make_shared<const Request>(rich_request());
  batch.items[1].name = "w";
  batch.items[1].kind = Collective::kGather;
  batch.items[1].code = Code::kStalled;
  batch.items[1].message = "late";
  batch.items[2].last_joined = 1;
  return batch;
}

void check_same(const Request& a, const Request& b) {
  CHECK(a.name == b.name);
  CHECK(a.kind == b.kind);
  CHECK(a.tensors == b.tensors);
  CHECK(a.op == b.op);
  CHECK(a.root == b.root);
  CHECK(a.prescale == b.prescale);
  CHECK(a.postscale == b.postscale);
  CHECK(a.compression == b.compression);
  CHECK(a.device.kind == b.device.kind);
  CHECK(a.priority == b.priority);
  CHECK(a.call_site == b.call_site);
  CHECK(a.program == b.program);
}

}  // namespace

TEST_CASE("Wire: a tick reads back as it was written, from any alignment") {
  const TickFrame sent = rich_tick();
  const std::vector<Bytes> frames = encode(sent);
  REQUIRE(frames.size() == 1);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes shifted(frames[0].size() + shift);
    std::memcpy(shifted.data() + shift, frames[0].data(), frames[0].size());
    FrameReader reader;
    const auto kind = reader.read(std::span<const std::byte>(shifted).subspan(shift));
    REQUIRE(kind.ok());
    CHECK(kind.value() == FrameKind::kTick);
    const TickFrame& got = reader.tick;
    CHECK(got.acked == 12);
    CHECK(got.first_word == 3);
    CHECK(got.words == sent.words);
    REQUIRE(got.reports.size() == 2);
    check_same(*got.reports[0].request, *sent.reports[0].request);
    CHECK(got.reports[0].code == Code::kMismatch);
    CHECK(got.reports[0].message == "differs");
    CHECK(got.reports[1].slot == 9);
    CHECK(got.reports[1].ordinal == 4);
    CHECK_FALSE(got.reports[0].payload.whole);
    CHECK(got.reports[1].payload.whole);
    CHECK(got.reports[1].payload.ranks == std::vector<int>{1, 6});
    CHECK(got.reports[1].payload.bytes == sent.reports[1].payload.bytes);
    CHECK(got.notices.at(0).key.name == "w");
    CHECK(got.overdue.at(0).fatal);
    CHECK(got.overdue.at(0).asks);
    CHECK(got.query == 6);
    CHECK(got.facts.at(0).missing == std::vector<int>{1, 3});
    CHECK(got.facts.at(0).kind == 2);
    CHECK(got.facts.at(0).blocked.rank == 3);
    CHECK(got.facts.at(0).blocked.key == OpKey{"", 5});
    CHECK(got.facts.at(0).blocked.kind == Collective::kBarrier);
    CHECK(got.facts.at(0).blocked.site == "a.py:7");
    CHECK(got.facts.at(0).blocked.others == std::vector<OpKey>{{"v", 0}, {"", 6}});
    CHECK(got.last_joined == 5);
    CHECK(got.leaver == 2);
    CHECK(got.farewell == "ValueError");
  }
}

TEST_CASE("Wire: a batch reads back as it was written") {
  const BatchFrame sent = rich_batch();
  FrameReader reader;
  const auto kind = reader.read(encode(sent).at(0));
  REQUIRE(kind.ok());
  CHECK(kind.value() == FrameKind::kBatch);
  CHECK(reader.batch.sequence == 77);
  CHECK(reader.batch.order == sent.order);
  CHECK(reader.batch.priorities == sent.priorities);
  CHECK(reader.batch.released == 3);
  CHECK(reader.batch.launches == sent.launches);
  REQUIRE(reader.batch.items.size() == 3);
  check_same(*reader.batch.items[0].request, *sent.items[0].request);
  CHECK(reader.batch.items[0].result == sent.items[0].result);
  CHECK(reader.batch.items[1].code == Code::kStalled);
  CHECK(reader.batch.items[1].kind == Collective::kGather);
  CHECK(reader.batch.items[2].last_joined == 1);
}

TEST_CASE("Wire: a request says that it has a weight; the reports have the weights") {
  Request weighted = request_for(Collective::kAllreduce, "w", {3});
  weighted.op = ReduceOp::kAverage;
  weighted.weight = 2.5;
  TickFrame tick;
  tick.reports.resize(1);
  tick.reports[0].request = std::make_shared<const Request>(weighted);
  tick.reports[0].weight = 2.5;
  FrameReader reader;
  REQUIRE(reader.read(encode(tick).at(0)).ok());
  CHECK(reader.tick.reports.at(0).request->weight == 0.0);
  CHECK(reader.tick.reports.at(0).weight == 2.5);
}

TEST_CASE("Wire: frames that say what cannot be are refused") {
  const auto refused = [](const auto& frame) {
    return !FrameReader().read(encode(frame).at(0)).ok();
  };
  BatchFrame batch = rich_batch();
  CHECK_FALSE(refused(batch));
  batch.order.push_back(-4);
  CHECK(refused(batch));
  batch = rich_batch();
  batch.items[2].slot = 4;  // agreed and joined at once
  CHECK(refused(batch));
  batch = rich_batch();
  batch.items[1].name.clear();  // failed, but what?
  CHECK(refused(batch));
  TickFrame tick = rich_tick();
  tick.notices[0].key = {};
  CHECK(refused(tick));
  tick = rich_tick();
  Request invalid = rich_request();
  invalid.tensors[0].shape = {-1};
  tick.reports[0].request = std::make_shared<const Request>(invalid);
  CHECK(refused(tick));
  tick = rich_tick();
  tick.reports[0].request = nullptr;
  CHECK(refused(tick));
  tick = rich_tick();
  tick.facts[0].blocked.kind = static_cast<Collective>(kCollectiveCount);
  CHECK(refused(tick));
  Bytes frame = encode(rich_tick()).at(0);
  frame[0] = std::byte{4};
  const Status unknown = FrameReader().read(frame).status();
  CHECK(unknown.code() == Code::kInvalidArgument);
  CHECK(unknown.message() == "malformed frame: unknown kind");
}

TEST_CASE("Wire: a truncated frame is refused at every length") {
  const Bytes frame = encode(rich_tick()).at(0);
  FrameReader reader;
  CHECK(reader.read(frame).ok());
  for (std::size_t length = 0; length < frame.size(); ++length) {
    CHECK_FALSE(reader.read(std::span<const std::byte>(frame).first(length)).ok());
  }
}

TEST_CASE("Wire: mutated frames of any rank never harm a member") {
  std::mt19937_64 random(11);
  std::size_t accepted = 0;
  for (int round = 0; round < 60; ++round) {
    TestJob job(5, 2);
    for (int step = 0; step < 3; ++step) {
      for (int rank = 0; rank < 5; ++rank) {
        REQUIRE(job.at(rank).submit(allreduce("w" + std::to_string(step)), 1, {}).ok());
        REQUIRE(job.at(rank).submit(allreduce(""), 1, {}).ok());
      }
      if (step == 0) job.deliver();
    }
    for (int turn = 0; turn < 6; ++turn) {
      for (int from = 0; from < 5; ++from) {
        std::vector<OutFrame> frames;
        job.at(from).take_frames(frames);
        for (OutFrame& frame : frames) {
          for (int flip = 0; flip < 40; ++flip) {
            Bytes mutated = frame.bytes;
            for (std::uint64_t i = 0; i <= random() % 3; ++i) {
              mutated[random() % mutated.size()] = static_cast<std::byte>(random() & 255);
            }
            if (job.at(frame.to).on_frame(from, mutated, {}).ok()) ++accepted;
          }
          if (job.at(frame.to).on_frame(from, frame.bytes, {}).ok()) ++accepted;
        }
      }
      for (int rank = 0; rank < 5; ++rank) job.take(rank);
    }
  }
  CHECK(accepted > 0);
}

}  // namespace ronde
