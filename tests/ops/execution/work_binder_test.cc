#include "ops/execution/work_binder.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/rank.h"
#include "tests/ops/local_fixture.h"
#include "tests/support/host_device.h"

namespace ronde::test {
namespace {

using Residuals = std::shared_ptr<ResidualStore>;

/// A rank's binder over the local backend, and an allreduce of ones.
struct BoundRank {
  BoundRank(Backend& backend, const GroupSpec& group, Exchange& exchange, bool has_device)
      : abort(*group.abort),
        binder({.host_parts = {.whole = backend.open(group, exchange).value()},
                .host = {.kernels = plain_kernels(), .rank = group.rank, .size = group.size()},
                .open_device = has_device ? DeviceOpener(&open) : DeviceOpener(),
                .compression = {.residuals = residuals, .loss_steps = 1, .rank = group.rank}}) {
    auto* const at = reinterpret_cast<std::byte*>(values.data());
    segment = {at, at, values.size() * sizeof(float)};
    work.kind = Collective::kAllreduce;
    work.segments = {&segment, 1};
    work.bytes = segment.bytes;
  }

  static Result<DeviceParts> open(int /*index*/) {
    return DeviceParts{.device = std::make_shared<HostDevice>(), .whole = nullptr};
  }

  Bundle bundle(const std::string& compression, bool on_device) {
    Bundle made = bundle_of(Collective::kAllreduce, DType::kFloat32);
    made.compression = compression;
    made.keys = {"w"};
    made.tensors = {in_place(values)};
    if (on_device) made.device = {DeviceKind::kCuda, 0};
    return made;
  }

  /// Runs the allreduce as an executor does. `check` gets the bound work before it has run.
  void run(const Bundle& made, const std::function<void(const BoundWork&)>& check) {
    std::fill(values.begin(), values.end(), 1.0F);
    CHECK(binder.begin(made, abort).ok());
    {
      auto bound = binder.bind(made, work, abort);
      REQUIRE(bound.ok());
      check(*bound);
      CHECK(binder.run(*bound, abort).ok());
      CHECK(binder.finish(made, *bound, abort).ok());
    }
    CHECK(binder.end(made, abort).ok());
  }

  const AbortToken& abort;
  const Residuals residuals = std::make_shared<ResidualStore>();
  WorkBinder binder;
  std::vector<float> values = std::vector<float>(300, 1.0F);
  Segment segment;
  Work work;
};

void on_two_ranks(const std::function<void(BoundRank&)>& body, bool has_device = false) {
  LocalFixture().run(2, [&](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    BoundRank rank(backend, group, exchange, has_device);
    body(rank);
    CHECK(exchange.allgather("done").ok());
  });
}

}  // namespace

TEST_CASE("work binder: dense work of the host is bound to an algorithm over its wires") {
  on_two_ranks([](BoundRank& rank) {
    CHECK(rank.binder.last_path().empty());
    rank.run(rank.bundle("", false), [](const BoundWork& bound) {
      CHECK(bound.compression == nullptr);
      CHECK(bound.stream == kNoStream);
      CHECK(bound.route->algorithm->name == "tree");
      CHECK(bound.traced.algorithm == "tree");
      CHECK(bound.traced.path == "local");
      CHECK_FALSE(bound.traced.ratio.has_value());
    });
    CHECK(rank.values[7] == 2.0F);
    CHECK(rank.binder.last_path() == "tree over local");
  });
}

TEST_CASE("work binder: compressed work is bound to a codec, and keeps its residual once it ran") {
  on_two_ranks([](BoundRank& rank) {
    const Bundle bundle = rank.bundle("topk:ratio=0.1,warmup=0", false);
    rank.run(bundle, [&](const BoundWork& bound) {
      REQUIRE(bound.compression != nullptr);
      CHECK(bound.communicator->traits().lossy);
      CHECK(bound.traced.algorithm == "topk:ratio=0.1,warmup=0");
      CHECK(bound.facts().wire_bytes == 0);
    });
    CHECK(rank.binder.last_path() == "compressed over local");
    CHECK(rank.residuals->losses().size() == 1);
  });
}

TEST_CASE("work binder: a codec's warm-up is bound dense") {
  on_two_ranks([](BoundRank& rank) {
    const Bundle bundle = rank.bundle("onebit:warmup=2", false);
    std::vector<bool> dense;
    for (int step = 0; step < 4; ++step) {
      rank.run(bundle,
               [&](const BoundWork& bound) { dense.push_back(bound.compression == nullptr); });
    }
    CHECK(dense == std::vector<bool>{true, true, false, false});
  });
}

TEST_CASE("work binder: work of a device without kernels is compressed on the host") {
  on_two_ranks(
      [](BoundRank& rank) {
        const Bundle bundle = rank.bundle("int8", true);
        rank.run(bundle, [&](const BoundWork& bound) {
          CHECK(bound.compression != nullptr);
          CHECK(bound.stream == kNoStream);
          CHECK(bound.on_device.size() == 1);
          CHECK(bound.work.segments[0].in != rank.segment.in);
          CHECK(bound.traced.path == "local");
        });
        CHECK(rank.values[7] == doctest::Approx(2.0F));
        CHECK(rank.binder.last_path() == "compressed over local");
      },
      true);
}

TEST_CASE("work binder: Adasum of a device's tensors is computed on the host, and brought back") {
  on_two_ranks(
      [](BoundRank& rank) {
        Bundle bundle = rank.bundle("", true);
        bundle.op = rank.work.reduction.op = ReduceOp::kAdasum;
        rank.run(bundle, [&](const BoundWork& bound) {
          CHECK(bound.stream == kNoStream);
          CHECK(bound.on_device.size() == 1);
          CHECK(bound.work.segments[0].in != rank.segment.in);
          CHECK(bound.traced.algorithm == "adasum");
        });
        CHECK(rank.values[7] == 1.0F);  // of equal tensors: their mean
        CHECK(rank.binder.last_path() == "adasum over local");
      },
      true);
}

TEST_CASE("work binder: dense work of a device goes to the device's communicator") {
  on_two_ranks(
      [](BoundRank& rank) {
        rank.run(rank.bundle("", true), [](const BoundWork& bound) {
          CHECK(bound.communicator->traits().memory == DeviceKind::kCuda);
          CHECK(bound.stream != kNoStream);
          CHECK(bound.traced.path == "local through host memory");
        });
        CHECK(rank.values[7] == 2.0F);
        CHECK(rank.binder.last_path() == "local through host memory");
      },
      true);
}

TEST_CASE("work binder: without devices a bundle in device memory is an error") {
  on_two_ranks([](BoundRank& rank) {
    CHECK(rank.binder.begin(rank.bundle("", true), rank.abort).code() == Code::kUnsupported);
  });
}

TEST_CASE("work binder: a compression that does not parse is an error before anything moves") {
  on_two_ranks([](BoundRank& rank) {
    const auto bound = rank.binder.bind(rank.bundle("zip", false), rank.work, rank.abort);
    CHECK(bound.status().code() == Code::kInvalidArgument);
  });
}

}  // namespace ronde::test
