#include "ops/communicator/algorithm.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/hierarchical/levels.h"
#include "tests/ops/local_fixture.h"
#include "tests/support/phase_lines.h"
#include "tests/support/plain_kernels.h"

namespace ronde::test {
namespace {

/// Does allreduces by adding 1, and has the point-to-point of another if it is given one.
class AddsOne final : public Communicator {
 public:
  explicit AddsOne(bool native_first, std::unique_ptr<Communicator> wires = nullptr)
      : Communicator({.name = "one",
                      .supports = SupportTable::of([](Collective kind, DType, ReduceOp) {
                        return kind == Collective::kAllreduce;
                      }),
                      .native_first = native_first}),
        wires_(std::move(wires)) {}
  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    observed = work.phases != nullptr;
    *reinterpret_cast<float*>(work.segments[0].out) += 1;
    return {};
  }
  [[nodiscard]] Transport* transport() noexcept override {
    return wires_ == nullptr ? nullptr : wires_->transport();
  }
  bool observed = false;

 private:
  const std::unique_ptr<Communicator> wires_;
};

/// Does allreduces of float32 by adding 1 to what it is given, which is plain.
class PlainAddsOne final : public Communicator {
 public:
  PlainAddsOne()
      : Communicator({.name = "plain",
                      .supports = SupportTable::of([](Collective kind, DType, ReduceOp) {
                        return kind == Collective::kAllreduce;
                      }),
                      .plain = true}) {}
  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    REQUIRE(work.segments.size() == 1);
    CHECK(work.reduction.scaling.pre == 1.0);
    CHECK(work.reduction.scaling.post == 1.0);
    const auto& [in, out, bytes] = work.segments[0];
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
      reinterpret_cast<float*>(out)[i] = reinterpret_cast<const float*>(in)[i] + 1;
    }
    return {};
  }
};

/// Does allreduces as three ranks with equal inputs would, in int32.
class PlainTriples final : public Communicator {
 public:
  PlainTriples()
      : Communicator({.name = "plain",
                      .supports = SupportTable::of([](auto...) { return true; }),
                      .plain = true}) {}
  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    CHECK(work.reduction.dtype == DType::kInt32);
    CHECK(work.reduction.scaling.post == 1.0);
    const auto& [in, out, bytes] = work.segments[0];
    CHECK(work.bytes == bytes);
    for (std::size_t i = 0; i < bytes / sizeof(std::int32_t); ++i) {
      reinterpret_cast<std::int32_t*>(out)[i] = 3 * reinterpret_cast<const std::int32_t*>(in)[i];
    }
    return {};
  }
};

AlgorithmOptions options_with(const GroupSpec& group, std::string algorithm = {}) {
  return {.kernels = plain_kernels(),
          .algorithm = std::move(algorithm),
          .rank = group.rank,
          .size = group.size()};
}

/// One allreduce of 1.0 in place, among ranks that are named by `group`.
float reduced(Communicator& communicator, const GroupSpec& group) {
  float value = 1;
  auto* const at = reinterpret_cast<std::byte*>(&value);
  const Segment segment{at, at, sizeof value};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  work.bytes = sizeof value;
  CHECK(communicator.run(work, kNoStream, *group.abort).ok());
  return value;
}

Work barrier() { return {}; }

Segment segment_of(const std::vector<float>& in, std::vector<float>& out) {
  return {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
          in.size() * sizeof(float)};
}

Status run(Collective kind, const Segment& segment, const Scaling& scaling = {}) {
  Work work;
  work.kind = kind;
  work.reduction = {DType::kFloat32, ReduceOp::kSum, scaling};
  work.segments = {&segment, 1};
  return LocalCommunicator(plain_kernels()).run(work, kNoStream, AbortToken());
}

}  // namespace

TEST_CASE("algorithm communicator: native collectives where they are best or asked for") {
  LocalFixture().run(3, [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    const auto value = [&](bool native_first, const char* algorithm) {
      auto inner = std::make_unique<AddsOne>(native_first, backend.open(group, exchange).value());
      AlgorithmCommunicator whole(std::move(inner), options_with(group, algorithm));
      CHECK(whole.traits().name == "one");
      const float sum = reduced(whole, group);
      CHECK(whole.route(barrier())->path == Path::kAlgorithm);  // which it does not do itself
      CHECK(exchange.allgather("done").ok());
      return sum;
    };
    CHECK(value(true, "") == 2.0F);  // 1 + 1, by AddsOne
    CHECK(value(false, "native") == 2.0F);
    CHECK(value(true, "hierarchical") == 2.0F);
    CHECK(value(false, "") == 3.0F);  // by all ranks
  });
}

TEST_CASE("algorithm communicator: the table and the user choose among algorithms") {
  LocalFixture().run(3, [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    AlgorithmCommunicator by_table(backend.open(group, exchange).value(), options_with(group));
    Work work;
    work.kind = Collective::kAllreduce;
    work.bytes = 16;
    CHECK(by_table.route(work)->algorithm->name == "tree");
    work.bytes = std::size_t{1} << 20;
    CHECK(by_table.route(work)->algorithm->name == "ring");
    CHECK(reduced(by_table, group) == 3.0F);
    CHECK(exchange.allgather("done").ok());
    AlgorithmOptions direct = options_with(group, "ring");
    direct.deterministic = true;
    AlgorithmCommunicator deterministic(backend.open(group, exchange).value(), std::move(direct));
    CHECK(deterministic.route(work)->algorithm->name == "direct");
    CHECK(reduced(deterministic, group) == 3.0F);
    CHECK(exchange.allgather("done").ok());
  });
}

TEST_CASE("algorithm communicator: one rank copies, even where a communicator was opened for it") {
  LocalFixture().run(1, [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    AlgorithmCommunicator whole(backend.open(group, exchange).value(), options_with(group));
    CHECK(whole.route(barrier())->path == Path::kLocal);
    CHECK(whole.transport() == nullptr);
    CHECK(reduced(whole, group) == 1.0F);
  });
}

TEST_CASE("algorithm communicator: over the wires of some ranks it serves these") {
  LocalFixture().run(4, [](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    AlgorithmCommunicator whole(backend.open(group, exchange).value(), options_with(group));
    const std::vector<int> pair = rank < 2 ? std::vector{0, 1} : std::vector{2, 3};
    SubTransport wires(*whole.transport(), pair, rank % 2);
    const auto half = whole.among(wires);
    CHECK(reduced(*half, group) == 2.0F);
    CHECK(reduced(whole, group) == 4.0F);
    CHECK(exchange.allgather("done").ok());
  });
}

TEST_CASE("algorithm communicator: what can be done neither way is unsupported, by name") {
  GroupSpec group;
  group.ranks = {0, 1};
  AlgorithmCommunicator whole(std::make_unique<AddsOne>(false), options_with(group));
  const Status status = whole.run(barrier(), kNoStream, AbortToken());
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.message() == "barrier of float32 is not supported by one");
}

TEST_CASE("algorithm communicator: native collectives of a few bytes report no phases") {
  GroupSpec group;
  group.ranks = {0, 1};
  auto inner = std::make_unique<AddsOne>(true);
  AddsOne& one = *inner;
  AlgorithmCommunicator whole(std::move(inner), options_with(group));
  float value = 0;
  const Segment segment{nullptr, reinterpret_cast<std::byte*>(&value), sizeof value};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  PhaseLines few(64), many(1 << 20);
  work.phases = &few;
  CHECK(whole.run(work, kNoStream, AbortToken()).ok());
  CHECK_FALSE(one.observed);
  work.phases = &many;
  CHECK(whole.run(work, kNoStream, AbortToken()).ok());
  CHECK(one.observed);
}

TEST_CASE("algorithm communicator: plain collectives get one segment, without factors") {
  GroupSpec group;
  group.ranks = {0, 1};
  AlgorithmCommunicator whole(std::make_unique<PlainAddsOne>(), options_with(group));
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3), joined(3);
  std::vector<Segment> segments{segment_of(in, out), segment_of(in, joined)};
  segments[1].in = nullptr;
  Work work;
  work.kind = Collective::kAllreduce;
  work.reduction.scaling = {2.0, 0.5};
  work.segments = segments;
  CHECK(whole.run(work, kNoStream, AbortToken()).ok());
  CHECK(out == std::vector<float>{1.5F, 2.5F, 3.5F});
  CHECK(joined == std::vector<float>{0.5F, 0.5F, 0.5F});
  work.segments = std::span(segments).first(1);
  CHECK(whole.run(work, kNoStream, AbortToken()).ok());
  CHECK(out == std::vector<float>{1.5F, 2.5F, 3.5F});
  CHECK(in == std::vector<float>{1, 2, 3});
}

TEST_CASE("algorithm communicator: averages of integers do not overflow in plain collectives") {
  GroupSpec group;
  group.ranks = {0, 1, 2};
  AlgorithmCommunicator whole(std::make_unique<PlainTriples>(), options_with(group));
  const std::vector<std::int8_t> in{100, -128, 5};
  std::vector<std::int8_t> out(3);
  const Segment segment{reinterpret_cast<const std::byte*>(in.data()),
                        reinterpret_cast<std::byte*>(out.data()), 3};
  Work work;
  work.kind = Collective::kAllreduce;
  work.reduction = {DType::kInt8, ReduceOp::kSum, {1.0, 1.0 / 3}};
  work.segments = {&segment, 1};
  work.bytes = 3;
  CHECK(whole.run(work, kNoStream, AbortToken()).ok());
  CHECK(out == in);
}

TEST_CASE("algorithm communicator: packing, the algorithm and unpacking are phases") {
  LocalFixture().run(2, [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    AlgorithmCommunicator whole(backend.open(group, exchange).value(), options_with(group));
    PhaseLines lines(4);
    Work work = barrier();
    work.phases = &lines;
    CHECK(whole.run(work, kNoStream, *group.abort).ok());
    CHECK(lines.lines == std::vector<std::string>{"PACK", "dissemination", "UNPACK"});
    CHECK(exchange.allgather("done").ok());
  });
}

TEST_CASE("local: every output is the input, scaled where the kind reduces") {
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  CHECK(run(Collective::kAllreduce, segment_of(in, out)).ok());
  CHECK(out == in);
  CHECK(run(Collective::kAllreduce, segment_of(in, out), {2.0, 0.25}).ok());
  CHECK(out == std::vector<float>{0.5F, 1, 1.5F});
  CHECK(run(Collective::kAllgather, segment_of(in, out), {2.0, 0.25}).ok());
  CHECK(out == in);
}

TEST_CASE("local: an input that is absent counts as zeros, and an output that is absent is not") {
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out = in;
  Segment segment = segment_of(in, out);
  segment.in = nullptr;
  CHECK(run(Collective::kAllreduce, segment).ok());
  CHECK(out == std::vector<float>{0, 0, 0});
  segment = segment_of(in, out);
  segment.out = nullptr;
  CHECK(run(Collective::kAllreduce, segment).ok());
  CHECK(out == std::vector<float>{0, 0, 0});
}

TEST_CASE("local: it says that it can do all") {
  const LocalCommunicator local(plain_kernels());
  CHECK(local.traits().name == "self");
  CHECK(local.traits().supports.has(Collective::kBarrier, DType::kBool, ReduceOp::kBitXor));
}

}  // namespace ronde::test
