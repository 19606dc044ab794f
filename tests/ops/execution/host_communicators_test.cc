#include "ops/execution/host_communicators.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "tests/ops/hierarchical/hierarchical_fixture.h"

namespace ronde::test {
namespace {

AlgorithmOptions options_of(const GroupSpec& group) {
  return {.kernels = plain_kernels(), .rank = group.rank, .size = group.size()};
}

/// A sum of ones over all ranks, by int8, which holds it exactly.
float compressed_sum(HostCommunicators& host, const GroupSpec& group) {
  const Scheme scheme(*parse_compression("int8"));
  CompressedWork compression(scheme, std::vector<CompressedTensor>(1));
  std::vector<float> values(256, 1.0F);
  auto* const at = reinterpret_cast<std::byte*>(values.data());
  const Segment segment{at, at, values.size() * sizeof(float)};
  Work work;
  work.kind = Collective::kAllreduce;
  work.segments = {&segment, 1};
  work.bytes = segment.bytes;
  std::optional<Binding> binding;
  if (host.codec() != nullptr) binding.emplace(*host.codec(), compression);
  CHECK(host.compressed().run(work, kNoStream, *group.abort).ok());
  return values[200];
}

Work allreduce() {
  Work work;
  work.kind = Collective::kAllreduce;
  return work;
}

}  // namespace

TEST_CASE("host communicators: over one backend, compression uses its wires") {
  LocalFixture().run(3, [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
    HostParts parts;
    parts.whole = backend.open(group, exchange).value();
    HostCommunicators host(std::move(parts), options_of(group));
    CHECK_FALSE(host.levels());
    CHECK_FALSE(host.in_memory());
    CHECK(host.dense().traits().name == "local");
    CHECK(host.compressed_path(allreduce()).value() == Path::kCompressed);
    CHECK(compressed_sum(host, group) == doctest::Approx(3.0F));
    CHECK(exchange.allgather("done").ok());
  });
}

TEST_CASE("host communicators: in two levels, compression is between hosts alone") {
  run_on_hosts({0, 0, 1}, {},
               [](int, Backend& backend, const GroupSpec& group, Exchange& exchange) {
                 auto made = static_cast<HierarchicalBackend&>(backend).parts(group, exchange);
                 REQUIRE(made.ok());
                 HostCommunicators host(std::move(*made), options_of(group));
                 CHECK(host.levels());
                 CHECK_FALSE(host.in_memory());
                 CHECK(host.dense().traits().name == "local, local inside hosts");
                 CHECK(host.dense().route(allreduce())->path == Path::kNative);
                 CHECK(host.compressed_path(allreduce()).value() == Path::kCompressed);
                 CHECK(compressed_sum(host, group) == doctest::Approx(3.0F));
                 CHECK(exchange.allgather("done").ok());
               });
}

TEST_CASE("host communicators: one rank has nothing to compress for") {
  GroupSpec group;
  group.ranks = {0};
  group.abort = std::make_shared<AbortToken>();
  HostCommunicators host(HostParts(), options_of(group));
  CHECK(host.compressed_path(allreduce()).value() == Path::kLocal);
  CHECK(compressed_sum(host, group) == 1.0F);
}

}  // namespace ronde::test
