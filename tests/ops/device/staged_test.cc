#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "ops/communicator/algorithm.h"
#include "ops/device/device_parts.h"
#include "tests/ops/local_fixture.h"
#include "tests/support/host_device.h"

namespace ronde::test {
namespace {

/// A staged communicator of one rank, and what it stands on.
struct Staged {
  Staged(Backend& backend, const GroupSpec& spec, Exchange& exchange)
      : group(spec),
        host(backend.open(spec, exchange).value(),
             {.kernels = plain_kernels(), .rank = spec.rank, .size = spec.size()}),
        communicator(create_staged(device, host, spec.rank, spec.size()).value()),
        stream(device->open_stream().value()) {}

  Status run(Work work, const std::vector<float>& in, std::vector<float>& out) {
    const Segment segment{reinterpret_cast<const std::byte*>(in.data()),
                          reinterpret_cast<std::byte*>(out.data()),
                          std::max(in.size(), out.size()) * sizeof(float)};
    work.segments = {&segment, 1};
    work.bytes = segment.bytes;
    return communicator->run(work, stream, *group.abort);
  }

  const GroupSpec group;
  const std::shared_ptr<HostDevice> device = std::make_shared<HostDevice>();
  AlgorithmCommunicator host;
  const std::unique_ptr<Communicator> communicator;
  const DeviceStream stream;
};

Work work_of(Collective kind) {
  Work work;
  work.kind = kind;
  return work;
}

}  // namespace

TEST_CASE("staged: collectives of device memory over what moves the host's") {
  LocalFixture().run(3, [](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    Staged staged(backend, group, exchange);
    CHECK(staged.communicator->traits().name == "local");
    CHECK(staged.communicator->traits().memory == DeviceKind::kCuda);
    CHECK(staged.communicator->traits().supports.has(Collective::kGather, DType::kBool));
    const std::vector<float> mine(5, static_cast<float>(rank + 1));
    std::vector<float> sums(5);
    CHECK(staged.run(work_of(Collective::kAllreduce), mine, sums).ok());
    CHECK(sums == std::vector<float>(5, 6.0F));
    const std::vector<std::size_t> chunks(3, 5 * sizeof(float));
    std::vector<float> all(15);
    Work gather = work_of(Collective::kAllgather);
    gather.chunk_bytes = chunks;
    CHECK(staged.run(gather, mine, all).ok());
    CHECK(all[0] == 1);
    CHECK(all[7] == 2);
    CHECK(all[14] == 3);
    CHECK(exchange.allgather("done").ok());
  });
}

TEST_CASE("staged: element-wise kinds move in pieces, each with its own copies") {
  LocalFixture().run(2, [](int rank, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    Staged staged(backend, group, exchange);
    const std::size_t count = 2 * kStagedPieceBytes / sizeof(float) + 3;
    const std::vector<float> mine(count, static_cast<float>(rank + 1));
    std::vector<float> sums(count);
    CHECK(staged.run(work_of(Collective::kAllreduce), mine, sums).ok());
    CHECK(std::all_of(sums.begin(), sums.end(), [](float sum) { return sum == 3.0F; }));
    CHECK(staged.device->copies == 6);  // three pieces, down and up
    CHECK(exchange.allgather("done").ok());
  });
}

}  // namespace ronde::test
