#include "ops/execution/executor.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "ops/compression/residuals.h"
#include "tests/conformance/rank.h"
#include "tests/ops/allocation_count.h"
#include "tests/ops/local_fixture.h"

namespace ronde::test {
namespace {

// A data plane of two ranks that adds nothing: it notes the work and succeeds.
class NotingPlane final : public Communicator {
 public:
  struct Notes {
    int runs = 0;
    Work work;
    Segment segment;
  };
  NotingPlane(Notes& notes, bool able)
      : Communicator({.name = "noting",
                      .supports = SupportTable::of([able](auto...) { return able; }),
                      .native_first = true}),
        notes_(notes) {}

  Status run(const Work& work, DeviceStream, const AbortToken&) override {
    ++notes_.runs;
    notes_.work = work;
    if (!work.segments.empty()) notes_.segment = work.segments[0];
    return {};
  }

 private:
  Notes& notes_;
};

std::unique_ptr<Executor> noting_executor(NotingPlane::Notes& notes, bool able = true,
                                          const EventSwitch* events = nullptr) {
  ExecutorOptions options;
  options.host.whole = std::make_unique<NotingPlane>(notes, able);
  options.kernels = plain_kernels();
  options.events = events;
  options.size = 2;
  return create_executor(std::move(options)).value();
}

std::unique_ptr<Executor> lone_executor() {
  ExecutorOptions options;
  options.kernels = plain_kernels();
  return create_executor(std::move(options)).value();
}

Bundle bundle_with(Bundle bundle, std::vector<float>& data, Shape shape) {
  BundleTensor tensor;
  tensor.name = "gradient";
  tensor.in = tensor.out = data.data();
  tensor.shape = std::move(shape);
  bundle.tensors = {tensor};
  return bundle;
}

class NotingSink final : public EventSink {
 public:
  void begin(std::string_view lane, std::string_view event, const EventArgs& args) override {
    lines.push_back(std::string("begin ") + std::string(lane) + " " + std::string(event) + " " +
                    std::to_string(args.bytes) + " " + std::string(args.algorithm) + " " +
                    std::string(args.backend));
  }
  void end(std::string_view lane, const EventArgs&) override {
    lines.push_back("end " + std::string(lane));
  }
  void span(std::string_view, std::string_view, TimeSpan, const EventArgs&) override {}
  void instant(std::string_view, std::string_view) override {}
  void counter(std::string_view, double) override {}
  std::vector<std::string> lines;
};

}  // namespace

TEST_CASE("Executor: a plane that prefers its own collective is given the whole bundle") {
  NotingPlane::Notes notes;
  const auto executor = noting_executor(notes);
  const AbortToken abort;
  std::vector<float> data(6);
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kAverage);
  bundle.prescale = 3;
  CHECK(executor->last_path().empty());
  CHECK(executor->execute(bundle_with(bundle, data, {2, 3}), abort).ok());
  CHECK(executor->last_path() == "noting");
  CHECK(notes.runs == 1);
  CHECK(notes.work.reduction.op == ReduceOp::kSum);
  CHECK(notes.work.reduction.scaling.pre == 3);
  CHECK(notes.work.reduction.scaling.post == 0.5);
  CHECK(notes.segment.bytes == 24);
  CHECK(notes.segment.in == notes.segment.out);
}

TEST_CASE("Executor: a result that came with the agreement is handed out, and nothing moves") {
  NotingPlane::Notes notes;
  NotingSink sink;
  EventSwitch events;
  events.set(&sink);
  const auto executor = noting_executor(notes, true, &events);
  const AbortToken abort;
  std::vector<float> data(2);
  Bundle bundle = bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {2});
  const std::vector<float> sum = {3.0F, 4.0F};
  const auto* const bytes = reinterpret_cast<const std::byte*>(sum.data());
  bundle.result.assign(bytes, bytes + 8);
  CHECK(executor->execute(bundle, abort).ok());
  CHECK(data == sum);
  CHECK(notes.runs == 0);
  CHECK(sink.lines ==
        std::vector<std::string>{"begin gradient ALLREDUCE 8 inline control", "end gradient"});
  SUBCASE("a rank that has joined keeps nothing") {
    bundle.tensors[0].in = bundle.tensors[0].out = nullptr;
    CHECK(executor->execute(bundle, abort).ok());
  }
  SUBCASE("memory is allocated for it where there is none") {
    std::vector<float> made(2);
    const OutputAllocator allocate = [&](std::size_t, const Shape&) -> Result<void*> {
      return static_cast<void*>(made.data());
    };
    bundle.tensors[0].out = nullptr;
    bundle.tensors[0].allocate = &allocate;
    CHECK(executor->execute(bundle, abort).ok());
    CHECK(made == sum);
  }
  SUBCASE("one that does not fit is an error") {
    bundle.result.pop_back();
    CHECK(executor->execute(bundle, abort).code() == Code::kInternal);
  }
}

TEST_CASE("Executor: a small allreduce on a data plane of its own allocates nothing") {
  NotingPlane::Notes notes;
  const auto executor = noting_executor(notes);
  const AbortToken abort;
  std::vector<float> data(6);
  const Bundle bundle =
      bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {2, 3});
  CHECK(executor->execute(bundle, abort).ok());
  const long before = allocation_count();
  const bool ok = executor->execute(bundle, abort).ok();
  CHECK(allocation_count() == before);
  CHECK(ok);
  std::vector<int> proof(1);
  CHECK(allocation_count() > before);
}

TEST_CASE("Executor: one rank needs no data plane") {
  const auto executor = lone_executor();
  const AbortToken abort;
  std::vector<float> data{2, 4};
  Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kAverage);
  bundle.prescale = 0.5;
  CHECK(executor->execute(bundle_with(bundle, data, {2}), abort).ok());
  CHECK(data == std::vector<float>{1, 2});
  CHECK(executor->last_path() == "local");
  CHECK(executor->execute(bundle_of(Collective::kBarrier, DType::kUint8), abort).ok());
}

TEST_CASE("Executor: what cannot be done is an error, and says what") {
  NotingPlane::Notes notes;
  const auto executor = noting_executor(notes, false);
  const AbortToken abort;
  std::vector<float> data(1);
  const auto code = [&](const Bundle& bundle, Shape shape = {1}) {
    return executor->execute(bundle_with(bundle, data, std::move(shape)), abort).code();
  };
  const Bundle sum = bundle_of(Collective::kAllreduce, DType::kFloat32);
  CHECK(code(sum) == Code::kUnsupported);
  Bundle on_gpu = sum;
  on_gpu.device.kind = DeviceKind::kCuda;
  CHECK(code(on_gpu) == Code::kUnsupported);
  CHECK(code(bundle_of(Collective::kAllreduce, DType::kFloat32, ReduceOp::kBitAnd)) ==
        Code::kInvalidArgument);
  CHECK(code(bundle_of(Collective::kBroadcast, DType::kFloat32, ReduceOp::kSum, 2)) ==
        Code::kInvalidArgument);
  CHECK(code(bundle_of(Collective::kReduceScatter, DType::kFloat32), {}) == Code::kInvalidArgument);
  CHECK(notes.runs == 0);
}

TEST_CASE("Executor: after abort nothing is started") {
  NotingPlane::Notes notes;
  const auto executor = noting_executor(notes);
  AbortToken abort;
  abort.abort(Status(Code::kRankFailure, "rank 1 died"));
  std::vector<float> data(1);
  const Bundle bundle = bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {1});
  CHECK(executor->execute(bundle, abort).message() == "rank 1 died");
  CHECK(notes.runs == 0);
}

TEST_CASE("Executor: events enclose the work on each tensor's lane") {
  NotingPlane::Notes notes;
  NotingSink sink;
  EventSwitch events;
  events.set(&sink);
  const auto executor = noting_executor(notes, true, &events);
  const AbortToken abort;
  std::vector<float> data(1);
  const Bundle bundle = bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {1});
  CHECK(executor->execute(bundle, abort).ok());
  CHECK(sink.lines ==
        std::vector<std::string>{"begin gradient ALLREDUCE 4 native noting", "end gradient"});
}

TEST_CASE("create_executor: an override must be known, and possible") {
  ExecutorOptions options;
  options.algorithm = "telepathy";
  CHECK(create_executor(std::move(options)).status().code() == Code::kInvalidArgument);
  NotingPlane::Notes notes;
  ExecutorOptions no_transport;
  no_transport.host.whole = std::make_unique<NotingPlane>(notes, true);
  no_transport.algorithm = "ring";
  no_transport.size = 2;
  const Status status = create_executor(std::move(no_transport)).status();
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.message().find("noting") != std::string::npos);
}

TEST_CASE("Executor: a rank that cannot allocate its output alone fails, and work goes on") {
  LocalFixture fixture;
  fixture.run(3, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    const Rank rank(fixture, backend, group, exchange);
    const bool poor = rank.rank() == 1;
    std::vector<float> data(4, 1.0F);
    std::vector<float> room(12);
    const OutputAllocator allocate = [&](std::size_t, const Shape&) -> Result<void*> {
      if (poor) return Status(Code::kResourceExhausted, "no room");
      return static_cast<void*>(room.data());
    };
    Bundle bundle = bundle_with(bundle_of(Collective::kAllgather, DType::kFloat32), data, {4});
    bundle.tensors[0].out = nullptr;
    bundle.tensors[0].allocate = &allocate;
    CHECK(rank.run(bundle).code() == (poor ? Code::kResourceExhausted : Code::kOk));
    if (!poor) CHECK(room == std::vector<float>(12, 1.0F));
    Bundle again = bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {4});
    CHECK(rank.run(again).ok());
    CHECK(data == std::vector<float>(4, 3.0F));
    rank.share("done");
  });
}

TEST_CASE("Executor: the path names algorithm and data plane") {
  LocalFixture fixture("ring");
  fixture.run(2, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    const Rank rank(fixture, backend, group, exchange);
    std::vector<float> data(4, 1.0F);
    CHECK(
        rank.run(bundle_with(bundle_of(Collective::kAllreduce, DType::kFloat32), data, {4})).ok());
    CHECK(rank.executor().last_path() == "ring over local");
    rank.share("done");
  });
}

TEST_CASE("Executor: deterministic mode takes one order of addition, whatever the override") {
  LocalFixture fixture;
  fixture.run(2, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    for (const char* override_name : {"", "ring", "native", "hierarchical"}) {
      ExecutorOptions options;
      options.host.whole = backend.open(group, exchange).value();
      options.kernels = plain_kernels();
      options.algorithm = override_name;
      options.deterministic = true;
      options.rank = group.rank;
      options.size = group.size();
      const auto executor = create_executor(std::move(options)).value();
      std::vector<float> data(4, 1.0F);
      const Bundle sum = bundle_of(Collective::kAllreduce, DType::kFloat32);
      CHECK(executor->execute(bundle_with(sum, data, {4}), *group.abort).ok());
      CHECK(executor->last_path() == "direct over local");
      CHECK(exchange.allgather("done").ok());
    }
  });
}

TEST_CASE("Executor: in its warm-up a codec's tensors travel dense, for as long on all ranks") {
  constexpr std::uint64_t kWarmUp = 3, kSeen = 1;
  LocalFixture fixture;
  fixture.run(2, [&](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    for (const std::string codec : {"onebit", "powersgd", "randomk"}) {
      ExecutorOptions options;
      options.host.whole = backend.open(group, exchange).value();
      options.kernels = plain_kernels();
      options.residuals = std::make_shared<ResidualStore>();
      options.rank = group.rank;
      options.size = group.size();
      if (rank == 1) options.residuals->find(0, "w", 1024)->set_steps(kSeen);  // saw one step more
      const auto residual = options.residuals->find(0, "w", 1024);
      const auto executor = create_executor(std::move(options)).value();
      Bundle bundle = bundle_of(Collective::kAllreduce, DType::kFloat32);
      bundle.compression = codec + ":warmup=" + std::to_string(kWarmUp);
      bundle.keys = {"w"};
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::vector<float> data(1024);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i * i % 97);
        const std::vector<float> given = data;
        CHECK(executor->execute(bundle_with(bundle, data, {32, 32}), *group.abort).ok());
        bool exact = true;
        for (std::size_t i = 0; i < data.size(); ++i) exact = exact && data[i] == 2 * given[i];
        CHECK(exact == (step + kSeen < kWarmUp));
        CHECK(residual->steps() == step + 1 + (rank == 1 ? kSeen : 0));
      }
      CHECK(exchange.allgather("done").ok());
    }
  });
}

}  // namespace ronde::test
