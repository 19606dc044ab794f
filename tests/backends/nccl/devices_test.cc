// Which way work in device memory goes: all ranks agree, whatever of NCCL opens.
#include "bindings/runtime/groups/devices.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backends/cuda/factory.h"
#include "tests/backends/nccl/hosts.h"
#include "tests/support/run_ranks.h"

namespace ronde::test {
namespace {

/// A rank's communicator, or the reason why it has none.
struct Way {
  bool whole = false;
  bool inside = false;
  Status status;
};

DeviceLibraries fakes() {
  return {.accelerator = []() -> Result<std::shared_ptr<Accelerator>> {
    return std::shared_ptr<Accelerator>(create_cuda_accelerator("libc.so.6"));
  }};
}

/// The communicators of two hosts of two ranks, if NCCL opens for `largest` ranks at most.
std::vector<Way> ways(const std::string& backend, const std::string& algorithm, int largest) {
  cuda_fake::set_device_count(8);
  cuda_fake::set_nccl_largest(largest);
  const JobOnHosts hosts({0, 0, 1, 1});
  std::vector<Way> ways(4);
  run_ranks(4, [&](int r) {
    Devices devices(fakes());
    Registry registry;
    registry.add(create_local_backend(hosts.hub, r), Choice::kOnRequest);
    registry.add(fake_nccl(), Choice::kAutomatic);
    const GroupSpec spec = hosts.job.group(r);
    const auto exchange = hosts.job.exchange(r);
    const auto inside = [&](std::uint64_t, const std::vector<int>&) {
      return hosts.inside(host_layout(spec));
    };
    auto parts =
        open_device_parts(devices, {registry, r, backend, algorithm, inside}, spec, *exchange);
    Way& way = ways[static_cast<std::size_t>(r)];
    way.status = parts.status();
    if (!parts.ok()) return;
    way.whole = parts->whole != nullptr;
    way.inside = parts->inside != nullptr;
    CHECK((parts->chain != nullptr) == (way.whole || way.inside));
    REQUIRE(exchange->allgather("done").ok());
  });
  cuda_fake::set_nccl_largest(8);
  cuda_fake::set_device_count(2);
  CHECK(cuda_fake::live_communicators() == 0);
  return ways;
}

void expect(const std::vector<Way>& ways, bool whole, bool inside) {
  for (const Way& way : ways) {
    CHECK(way.status.ok());
    CHECK(way.whole == whole);
    CHECK(way.inside == inside);
  }
}

}  // namespace

TEST_CASE("device way: NCCL over all ranks where it opens") {
  expect(ways("auto", "", 8), true, false);
  expect(ways("nccl", "", 8), true, false);
}

TEST_CASE("device way: two levels where NCCL does not open across hosts") {
  expect(ways("auto", "", 2), false, true);
}

TEST_CASE("device way: two levels where they are asked for") {
  expect(ways("auto", "hierarchical", 8), true, true);
  expect(ways("local", "hierarchical", 8), false, true);
}

TEST_CASE(
    "device way: through the host where another backend is asked for, or NCCL does not open") {
  expect(ways("local", "", 8), false, false);
  expect(ways("auto", "", 1), false, false);
  expect(ways("auto", "hierarchical", 1), false, false);
}

TEST_CASE("device way: who insists on NCCL is told, on all ranks alike, why it does not open") {
  for (const Way& way : ways("nccl", "", 2)) {
    CHECK(way.status.code() == Code::kUnsupported);
    CHECK(way.status.message() ==
          "--backend nccl cannot be used: rank 0: ncclCommInitRankConfig: as planned");
  }
}

}  // namespace ronde::test
