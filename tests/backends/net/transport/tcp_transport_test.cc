// The tcp data plane's messages: any size, both directions at once, errors and aborts.
#include "backends/net/transport/tcp_transport.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "backends/net/transport/tcp_backend.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/transport/tcp_ranks.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {
namespace {

constexpr Wires kWires[] = {Wires::kUnix, Wires::kTcp, Wires::kTcp6, Wires::kSealed,
                            Wires::kSealedChaCha};

TEST_CASE("messages of all sizes arrive in order, zero bytes included") {
  const std::vector<std::size_t> sizes = {0, 1, 8, 0, 4096, 1'000'003, 0, 17};
  for (const Wires wires : kWires) {
    with_transports(wires, 3, [&](int rank, Transport& transport, AbortToken& abort) {
      const int to = (rank + 1) % 3;
      const int from = (rank + 2) % 3;
      std::vector<std::vector<std::byte>> out;
      std::vector<std::vector<std::byte>> in;
      std::vector<TransferId> ids;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        out.push_back(make_frame(rank, i, sizes[i]));
        in.emplace_back(sizes[i]);
        ids.push_back(transport.send(to, out.back()).value());
        ids.push_back(transport.recv(from, in.back()).value());
      }
      for (auto id = ids.rbegin(); id != ids.rend(); ++id) CHECK(transport.wait(*id, abort).ok());
      for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(in[i] == make_frame(from, i, sizes[i]));
    });
  }
}

TEST_CASE("two ranks that both send much at once do not block each other") {
  constexpr std::size_t kBytes = std::size_t{48} << 20;
  for (const Wires wires : {Wires::kUnix, Wires::kTcp, Wires::kSealed}) {
    with_transports(wires, 2, [&](int rank, Transport& transport, AbortToken& abort) {
      const auto out = make_frame(rank, 1, kBytes);
      std::vector<std::byte> in(kBytes);
      const TransferId sent = transport.send(1 - rank, out).value();
      const TransferId received = transport.recv(1 - rank, in).value();
      CHECK(transport.wait(sent, abort).ok());
      CHECK(transport.wait(received, abort).ok());
      CHECK(in == make_frame(1 - rank, 1, kBytes));
    });
  }
}

TEST_CASE("a receive of another length than its send breaks the group") {
  with_transports(Wires::kTcp, 2, [](int rank, Transport& transport, AbortToken& abort) {
    std::vector<std::byte> data(10);
    if (rank == 0) {
      CHECK(transport.wait(transport.send(1, data).value(), abort).ok());
      return;
    }
    const TransferId id = transport.recv(0, std::span(data).first(9)).value();
    CHECK(transport.wait(id, abort).message().find("10 bytes where 9") != std::string::npos);
    CHECK(!transport.recv(0, data).ok());
  });
}

TEST_CASE("a transfer with oneself or nobody is refused") {
  with_transports(Wires::kUnix, 2, [](int rank, Transport& transport, AbortToken&) {
    CHECK(transport.send(rank, {}).status().code() == Code::kInvalidArgument);
    CHECK(transport.recv(2, {}).status().code() == Code::kInvalidArgument);
    CHECK(transport.send(-1, {}).status().code() == Code::kInvalidArgument);
  });
}

TEST_CASE("an abort ends a wait that sleeps") {
  with_transports(Wires::kSealed, 2, [](int rank, Transport& transport, AbortToken& abort) {
    std::byte byte{};
    const std::byte here{1};
    // The token, which both share, is aborted once rank 1 has nothing else left to wait for.
    if (rank == 1) REQUIRE(transport.send(0, {&here, 1}).ok());
    if (rank == 0) REQUIRE(transport.wait(transport.recv(1, {&byte, 1}).value(), abort).ok());
    const TransferId id = transport.recv(1 - rank, {&byte, 1}).value();
    std::thread aborter;
    if (rank == 0) aborter = std::thread([&] { abort.abort({Code::kAborted, "enough"}); });
    CHECK(transport.wait(id, abort).message() == "enough");
    if (aborter.joinable()) aborter.join();
  });
}

TEST_CASE("a peer that is gone is named") {
  with_transports(Wires::kTcp, 2, [](int rank, Transport& transport, AbortToken& abort) {
    if (rank == 1) return;
    std::byte byte{};
    const Status status = transport.wait(transport.recv(1, {&byte, 1}).value(), abort);
    CHECK(status.code() == Code::kRankFailure);
    CHECK(status.failed_rank()->rank == 1);
    CHECK(status.message().find("rank 1 (pid ") == 0);
  });
}

TEST_CASE(
    "a connection that breaks in send() is judged by wait(), as the control channel knows it") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  auto waker = AbortWaker::create();
  REQUIRE(waker.ok());
  std::vector<Stream> streams(2);
  streams[1] = Stream(FileDescriptor(ends[0]));
  TcpTransport transport(0, std::move(streams), {{0, "here", 10}, {1, "here", 11}},
                         std::move(waker).value());
  ::close(ends[1]);  // rank 1 leaves, because it knows already that another rank died
  const std::vector<std::byte> data(10);
  AbortToken abort;
  const auto first = transport.send(1, data);
  const auto second = transport.send(1, data);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  abort.abort({Code::kRankFailure, "rank 2 died"});
  CHECK(transport.wait(*second, abort).message() == "rank 2 died");
  CHECK(transport.wait(*first, abort).message() == "rank 2 died");
  CHECK(transport.send(1, data).status().message() == "rank 2 died");
}

TEST_CASE("a rank with another secret does not get into the group") {
  const test::LocalJob job(2, {0, 1});
  test::run_ranks(2, [&](int rank) {
    const auto backend =
        tcp_backend(Wires::kTcp, rank, 2, /*secret_seed=*/rank, std::chrono::milliseconds(300));
    const auto exchange = job.exchange(rank);
    const auto group = backend->open(job.group(rank), *exchange);
    CHECK(group.status().code() == Code::kTimeout);
    CHECK(group.status().message().find("could not connect with rank") != std::string::npos);
  });
}

TEST_CASE("opening a group ends when the job is aborted") {
  const test::LocalJob job(2, {0, 1});
  test::run_ranks(2, [&](int rank) {
    const auto backend = tcp_backend(Wires::kTcp, rank, 2, /*secret_seed=*/rank);
    const auto exchange = job.exchange(rank);
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        job.abort().abort({Code::kAborted, "enough"});
      });
    }
    CHECK(!backend->open(job.group(rank), *exchange).ok());
    if (aborter.joinable()) aborter.join();
  });
}

TEST_CASE("the tcp backend carries messages and offers no collectives") {
  const test::LocalJob job(1);
  const auto backend = tcp_backend(Wires::kUnix, 0, 1);
  CHECK(backend->name() == "tcp");
  CHECK(backend->viable(job.group(0)).ok());
  auto group = backend->open(job.group(0), *job.exchange(0));
  REQUIRE(group.ok());
  CHECK_FALSE((*group)->traits().native_first);
  CHECK_FALSE((*group)->traits().supports.has(Collective::kBarrier, DType::kFloat32));
  CHECK((*group)->run({}, kNoStream, job.abort()).code() == Code::kUnsupported);
  CHECK((*group)->transport()->size() == 1);
  const test::LocalJob far(2, {0, 1});
  CHECK(!backend->viable(far.group(0)).ok());
}

}  // namespace
}  // namespace ronde::net
