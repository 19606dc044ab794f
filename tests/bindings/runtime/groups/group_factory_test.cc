#include "bindings/runtime/groups/group_factory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ops/kernels/factory.h"
#include "tests/support/local/factory.h"
#include "tests/support/local_exchange.h"
#include "tests/support/run_ranks.h"

namespace ronde {
namespace {

using test::LocalJob;
using test::run_ranks;

/// One rank of a job of threads whose only backend is the local one.
struct FactoryRank {
  FactoryRank(const LocalJob& the_job, const std::shared_ptr<LocalHub>& hub, int number)
      : job(the_job),
        topology(job.topology(number)),
        factory(
            {.config = config,
             .topology = topology,
             .state = state,
             .registry = registry,
             .events = events,
             .devices = devices,
             .keys = keys,
             .make_exchange = [this, number](std::uint64_t, const std::vector<int>&,
                                             const WaitOptions&) { return job.exchange(number); },
             .abort = abort,
             .kernels = create_kernels(),
             .residuals = std::make_shared<ResidualStore>(),
             .records = std::make_shared<OperationRing>()}) {
    registry.add(create_local_backend(hub, number), Choice::kAutomatic);
  }
  const LocalJob& job;
  Config config;
  Topology topology;
  RuntimeState state;
  Registry registry;
  EventSwitch events;
  Devices devices{builtin_device_libraries()};
  GroupKeys keys;
  std::shared_ptr<AbortToken> abort = std::make_shared<AbortToken>();
  GroupFactory factory;
};

Bundle bundle_of(std::vector<float>& values) {
  Bundle bundle;
  bundle.kind = Collective::kAllreduce;
  BundleTensor& tensor = bundle.tensors.emplace_back();
  tensor.in = tensor.out = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  return bundle;
}

}  // namespace

TEST_CASE("GroupFactory: a raw group sums over the data plane that all its ranks can use") {
  const LocalJob job(2);
  const auto hub = create_local_hub(2);
  run_ranks(2, [&](int number) {
    FactoryRank rank(job, hub, number);
    auto group = rank.factory.open({1, 0}, "ring");
    REQUIRE(group.ok());
    CHECK((*group)->rank() == number);
    CHECK((*group)->size() == 2);
    std::vector<float> values(5, static_cast<float>(number + 1));
    CHECK((*group)->run(bundle_of(values)).ok());
    CHECK(values == std::vector<float>(5, 3.0F));
    CHECK((*group)->last_path() == "ring over local");
  });
}

TEST_CASE("GroupFactory: a group without this rank is refused, as is all after the end") {
  const LocalJob job(1);
  FactoryRank rank(job, create_local_hub(1), 0);
  CHECK(rank.factory.open({1}).status().message() == "rank 0 is not in the group");
  REQUIRE(rank.state.end());
  CHECK(rank.factory.open({0}).status().code() == Code::kNotInitialized);
  CHECK(rank.factory.allocate(1).status().code() == Code::kNotInitialized);
}

TEST_CASE("GroupFactory: memory is zeros, whatever the backends offer") {
  const LocalJob job(1);
  FactoryRank rank(job, create_local_hub(1), 0);
  const auto memory = rank.factory.allocate(1000);
  REQUIRE(memory.ok());
  CHECK(std::count(memory->get(), memory->get() + 1000, std::byte{0}) == 1000);
  CHECK(rank.factory.allocate(0).ok());
}

TEST_CASE("GroupFactory: --backend nccl leaves host memory to the best of the others") {
  const LocalJob job(2);
  const auto hub = create_local_hub(2);
  run_ranks(2, [&](int number) {
    FactoryRank rank(job, hub, number);
    rank.registry.add_missing("nccl", "not built here", DeviceKind::kCuda);
    rank.config.backend = "nccl";
    auto group = rank.factory.open({0, 1});
    REQUIRE(group.ok());
    std::vector<float> values(5, 1.0F);
    CHECK((*group)->run(bundle_of(values)).ok());
    CHECK(values[4] == 2.0F);
  });
}

TEST_CASE("GroupFactory: each backend is described by a line") {
  const LocalJob job(2);
  FactoryRank rank(job, create_local_hub(2), 0);
  CHECK(rank.factory.describe_backends() == std::vector<std::string>{"local: usable"});
}

}  // namespace ronde
