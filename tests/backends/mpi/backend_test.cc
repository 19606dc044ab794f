// MPI's own collectives behind the backend's port, on a few known values.
#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <utility>

#include "backends/mpi/factory.h"
#include "ops/communicator/algorithm.h"
#include "tests/backends/mpi/mpi_world.h"
#include "tests/support/plain_kernels.h"

namespace ronde {
namespace {

/// One group of all ranks, opened with kernels.
struct Opened {
  explicit Opened(bool unprotected = false)
      : backend(create_mpi_backend({.network_interface = "",
                                    .kernels = test::plain_kernels(),
                                    .unprotected = unprotected})),
        spec(test::MpiWorld::instance().group()),
        group(test::MpiWorld::instance().open(*backend, spec)) {}
  Status run(const Work& work) const { return group->run(work, kNoStream, *spec.abort); }
  [[nodiscard]] int rank() const { return spec.rank; }
  [[nodiscard]] std::size_t size() const { return spec.ranks.size(); }

  std::unique_ptr<Backend> backend;
  GroupSpec spec;
  std::unique_ptr<Communicator> group;
};

std::vector<float> ramp(std::size_t count, int rank) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(1 + rank));
  return values;
}

Segment segment(const std::vector<float>& in, std::vector<float>& out) {
  return {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
          std::max(in.size(), out.size()) * sizeof(float)};
}

Work work_of(Collective kind, std::span<const Segment> segments) {
  Work work;
  work.kind = kind;
  work.segments = segments;
  return work;
}

/// Element `i` of the sum of all ranks' ramps.
float ramp_sum(std::size_t i, std::size_t ranks) {
  return static_cast<float>(ranks * (i + 1) + ranks * (ranks - 1) / 2);
}

TEST_CASE("mpi: allreduce scales and sums over several segments") {
  Opened open;
  AlgorithmCommunicator native(std::move(open.group), {.kernels = test::plain_kernels(),
                                                       .algorithm = "native",
                                                       .rank = open.rank(),
                                                       .size = static_cast<int>(open.size())});
  for (const std::size_t count : {1U, 7U, 300'000U}) {
    const auto in = ramp(count, open.rank());
    std::vector<float> out1(count), out2(count);
    const std::array<Segment, 3> segments = {segment(in, out1), Segment{}, segment(in, out2)};
    Work work = work_of(Collective::kAllreduce, segments);
    work.reduction.scaling = {.pre = 2.0, .post = 0.5};
    REQUIRE(native.run(work, kNoStream, *open.spec.abort).ok());
    CHECK(out1.front() == ramp_sum(0, open.size()));
    CHECK(out2.back() == ramp_sum(count - 1, open.size()));
    CHECK(out1 == out2);
  }
}

TEST_CASE("mpi: more bytes than one piece of staging memory are summed right") {
  const Opened open;
  const std::size_t count = (std::size_t{33} << 20) / sizeof(float);
  const std::vector<float> in(count, static_cast<float>(open.rank() + 1));
  std::vector<float> out(count);
  const std::array<Segment, 1> segments = {segment(in, out)};
  REQUIRE(open.run(work_of(Collective::kAllreduce, segments)).ok());
  const auto expected = static_cast<float>(open.size() * (open.size() + 1) / 2);
  CHECK(out == std::vector<float>(count, expected));
}

TEST_CASE("mpi: reduce writes at the root only, broadcast takes from the root only") {
  const Opened open;
  const int root = static_cast<int>(open.size()) - 1;
  const auto in = ramp(5, open.rank());
  std::vector<float> out(5, -1.0F);
  const std::array<Segment, 1> segments = {segment(in, out)};
  Work work = work_of(Collective::kReduce, segments);
  work.root = root;
  REQUIRE(open.run(work).ok());
  CHECK(out[4] == (open.rank() == root ? ramp_sum(4, open.size()) : -1.0F));
  work.kind = Collective::kBroadcast;
  REQUIRE(open.run(work).ok());
  if (open.rank() != root) CHECK(out == ramp(5, root));
}

TEST_CASE("mpi: allgather and alltoall of uneven parts") {
  const Opened open;
  const std::size_t size = open.size(), me = static_cast<std::size_t>(open.rank());
  std::vector<std::size_t> parts(size), send(size), recv(size);
  std::vector<float> expected, sent, received;
  for (std::size_t r = 0; r < size; ++r) {
    parts[r] = r * sizeof(float);  // rank 0 gives nothing
    expected.insert(expected.end(), r, static_cast<float>(r));
    send[r] = (me + r) % 3 * sizeof(float);
    recv[r] = send[r];  // the amount is symmetric
    sent.insert(sent.end(), (me + r) % 3, static_cast<float>(10 * me + r));
    received.insert(received.end(), (me + r) % 3, static_cast<float>(10 * r + me));
  }
  const std::vector<float> mine(me, static_cast<float>(me));
  std::vector<float> out(expected.size());
  const std::array<Segment, 1> gathered = {segment(mine, out)};
  Work work = work_of(Collective::kAllgather, gathered);
  work.chunk_bytes = parts;
  REQUIRE(open.run(work).ok());
  CHECK(out == expected);

  out.assign(received.size(), -1.0F);
  const std::array<Segment, 1> exchanged = {segment(sent, out)};
  work = work_of(Collective::kAlltoall, exchanged);
  work.send_bytes = send;
  work.recv_bytes = recv;
  REQUIRE(open.run(work).ok());
  CHECK(out == received);
}

TEST_CASE("mpi: unprotected, it sums the user's memory directly and refuses what it cannot") {
  const Opened open(true);
  const auto in = ramp(1000, open.rank());
  std::vector<float> out(1000);
  const std::array<Segment, 2> segments = {segment(in, out), segment(in, out)};
  REQUIRE(open.run(work_of(Collective::kAllreduce, std::span(segments).first(1))).ok());
  CHECK(out[999] == ramp_sum(999, open.size()));
  CHECK(open.run(work_of(Collective::kAllreduce, segments)).code() == Code::kUnsupported);
  CHECK(open.run(work_of(Collective::kBarrier, {})).ok());
}

TEST_CASE("mpi: after an abort, collectives return its reason at once") {
  const Opened open;
  open.spec.abort->abort({Code::kRankFailure, "rank 9 died"});
  const auto in = ramp(10, open.rank());
  std::vector<float> out(10);
  const std::array<Segment, 1> segments = {segment(in, out)};
  CHECK(open.run(work_of(Collective::kAllreduce, segments)).message() == "rank 9 died");
}

}  // namespace
}  // namespace ronde
