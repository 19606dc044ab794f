#include "backends/shm/transport/transport.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/backends/shm/shm_fixture.h"
#include "tests/support/run_ranks.h"

namespace ronde::shm {
namespace {

using Bytes = std::vector<std::byte>;

Bytes message(int from, int to, std::size_t n, std::size_t size) {
  std::minstd_rand random(static_cast<unsigned>(from * 1000 + to * 100) + static_cast<unsigned>(n));
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST_CASE("a ring hands over every byte in order, across its end") {
  RingControl control{};
  std::array<std::byte, 16> data{};
  Ring writer(control, data.data(), data.size());
  Ring reader(control, data.data(), data.size());
  unsigned sent = 0;
  unsigned received = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::array<std::byte, 7> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(sent + i);
    sent += static_cast<unsigned>(writer.push(out.data(), out.size()));
    std::array<std::byte, 5> in{};
    const std::size_t got = reader.pop(in.data(), in.size());
    for (std::size_t i = 0; i < got; ++i) CHECK(in[i] == static_cast<std::byte>(received++));
  }
  CHECK(received > 900);
  CHECK(sent - received <= data.size());
}

TEST_CASE("a full ring takes nothing and an empty one gives nothing") {
  RingControl control{};
  std::array<std::byte, 8> data{};
  Ring ring(control, data.data(), data.size());
  std::array<std::byte, 12> bytes{};
  CHECK(ring.pop(bytes.data(), 1) == 0);
  CHECK(ring.push(bytes.data(), bytes.size()) == 8);
  CHECK(ring.push(bytes.data(), 1) == 0);
  CHECK(ring.pop(bytes.data(), bytes.size()) == 8);
}

/// All ranks send to all others at once; receives are posted and waited for in another order.
void exchange_all(Transport& transport, const std::vector<std::size_t>& sizes) {
  const AbortToken abort;
  std::vector<Bytes> buffers;
  std::vector<TransferId> ids;
  const auto keep = [&](Result<TransferId> id) {
    REQUIRE(id.ok());
    ids.push_back(*id);
  };
  buffers.reserve(2 * sizes.size() * static_cast<std::size_t>(transport.size()));
  std::vector<std::pair<Bytes*, Bytes>> expected;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) continue;
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      keep(
          transport.send(peer, buffers.emplace_back(message(transport.rank(), peer, n, sizes[n]))));
      Bytes& in = buffers.emplace_back(sizes[n]);
      keep(transport.recv(peer, in));
      expected.emplace_back(&in, message(peer, transport.rank(), n, sizes[n]));
    }
  }
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) REQUIRE(transport.wait(*id, abort).ok());
  for (const auto& [got, wanted] : expected) CHECK(*got == wanted);
}

TEST_CASE("all ranks send to all others at once, messages of any length") {
  for (const int ranks : {2, 3, 5}) {
    const test::LocalJob job(ranks);
    test::run_ranks(ranks, [&](int rank) {
      const auto group = test::open_shm(job, rank);
      REQUIRE(group != nullptr);
      Transport& transport = *group->transport();
      CHECK(transport.rank() == rank);
      CHECK(transport.size() == ranks);
      exchange_all(transport, {0, 1, 8, 4096, 100'003, 0, 700'001, 5});
    });
  }
}

TEST_CASE("collectives and messages may alternate") {
  const test::LocalJob job(2);
  test::run_ranks(2, [&](int rank) {
    const auto group = test::open_shm(job, rank);
    REQUIRE(group != nullptr);
    for (int i = 0; i < 20; ++i) {
      exchange_all(*group->transport(), {3});
      REQUIRE(group->run(Work(), kNoStream, AbortToken()).ok());
    }
  });
}

TEST_CASE("a wait for a message that never comes ends with the abort") {
  const test::LocalJob job(2);
  AbortToken call;
  test::run_ranks(2, [&](int rank) {
    const auto group = test::open_shm(job, rank);
    REQUIRE(group != nullptr);
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return call.abort(Status(Code::kRankFailure, "rank 1 died"));
    }
    Bytes bytes(10);
    const auto id = group->transport()->recv(1, bytes);
    REQUIRE(id.ok());
    CHECK(group->transport()->wait(*id, call).code() == Code::kRankFailure);
    CHECK(group->transport()->send(1, bytes).status().code() == Code::kRankFailure);
  });
}

TEST_CASE("a receive of another length than its send is an error") {
  const test::LocalJob job(2);
  test::run_ranks(2, [&](int rank) {
    const auto group = test::open_shm(job, rank);
    REQUIRE(group != nullptr);
    Bytes bytes(rank == 0 ? 10 : 11);
    Transport& transport = *group->transport();
    const auto id = rank == 0 ? transport.send(1, bytes) : transport.recv(0, bytes);
    REQUIRE(id.ok());
    const Status status = transport.wait(*id, AbortToken());
    CHECK(status.code() == (rank == 0 ? Code::kOk : Code::kMismatch));
  });
}

TEST_CASE("a rank is no peer of itself") {
  const test::LocalJob job(1);
  const auto group = test::open_shm(job, 0);
  REQUIRE(group != nullptr);
  Bytes bytes(1);
  CHECK(group->transport()->send(0, bytes).status().code() == Code::kInvalidArgument);
  CHECK(group->transport()->recv(1, bytes).status().code() == Code::kInvalidArgument);
}

}  // namespace
}  // namespace ronde::shm
