// The tcp data plane's messages: any size, both directions at once, errors and aborts.
#include "backends/net/data/tcp_transport.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "backends/net/data/tcp_backend.h"
#include "tests/backends/net/channel_peer.h"
#include "tests/backends/net/data/tcp_ranks.h"
#include "tests/support/run_ranks.h"

namespace ronde::net {
namespace {

constexpr Wires kWires[] = {Wires::kUnix,          Wires::kTcp,          Wires::kTcp6,
                            Wires::kSealed,        Wires::kSealedChaCha, Wires::kHealing,
                            Wires::kHealingSealed, Wires::kTwoInterfaces};

/// Those of transports that are not alike.
constexpr Wires kBothKinds[] = {Wires::kTcp, Wires::kHealing};

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
  for (const Wires wires :
       {Wires::kUnix, Wires::kTcp, Wires::kSealed, Wires::kHealing, Wires::kTwoInterfaces}) {
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
  for (const Wires wires : kBothKinds) {
    with_transports(wires, 2, [](int rank, Transport& transport, AbortToken& abort) {
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
  for (const Wires wires : kBothKinds) {
    with_transports(wires, 2, [](int rank, Transport& transport, AbortToken& abort) {
      if (rank == 1) return;
      std::byte byte{};
      const Status status = transport.wait(transport.recv(1, {&byte, 1}).value(), abort);
      CHECK(status.code() == Code::kRankFailure);
      CHECK(status.failed_rank()->rank == 1);
      CHECK(status.message().find("rank 1 (pid ") == 0);
    });
  }
}

/// The group of one rank, which it may close before the others.
class OneRank {
 public:
  OneRank(const test::LocalJob& job, Listeners& listeners, int rank,
          const TcpRankOptions& options = {})
      : backend_(tcp_backend(listeners, rank, options)) {
    group_ = backend_->open(job.group(rank), *job.exchange(rank)).value();
  }
  [[nodiscard]] Transport& transport() const { return *group_->transport(); }
  void close_group() { group_.reset(); }
  void end() {
    group_.reset();
    backend_.reset();
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> group_;
};

/// One byte from `from` to the other of two ranks.
Status pass_byte(Transport& transport, int from, const AbortToken& abort) {
  std::byte byte{};
  const auto id = transport.rank() == from ? transport.send(1 - from, {&byte, 1})
                                           : transport.recv(from, {&byte, 1});
  return id.ok() ? transport.wait(*id, abort) : id.status();
}

TEST_CASE(
    "a connection that breaks in send() is judged by wait(), as the control channel knows it") {
  const test::LocalJob job(2);
  Listeners listeners(Wires::kUnix, 2);
  std::promise<void> closed;
  test::run_ranks(2, [&](int rank) {
    OneRank one(job, listeners, rank);
    AbortToken abort;
    REQUIRE(pass_byte(one.transport(), 1, abort).ok());
    if (rank == 1) {
      one.close_group();  // because it knows already that another rank died
      closed.set_value();
      return;
    }
    closed.get_future().wait();
    const std::vector<std::byte> data(10);
    const auto first = one.transport().send(1, data);
    const auto second = one.transport().send(1, data);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    abort.abort({Code::kRankFailure, "rank 2 died"});
    CHECK(one.transport().wait(*second, abort).message() == "rank 2 died");
    CHECK(one.transport().wait(*first, abort).message() == "rank 2 died");
    CHECK(one.transport().send(1, data).status().message() == "rank 2 died");
  });
}

TEST_CASE("a rank with another secret does not get into the group") {
  for (const Wires wires : kBothKinds) {
    const test::LocalJob job(2, {0, 1});
    Listeners listeners(wires, 2);
    test::run_ranks(2, [&](int rank) {
      const OneRank one(job, listeners, rank,
                        {.secret_seed = rank, .timeout = std::chrono::milliseconds(300)});
      const Status status = pass_byte(one.transport(), 1, job.abort());
      CHECK(status.code() == Code::kTimeout);
      CHECK(status.message().find(fmt::format("could not connect with rank {} (pid ", 1 - rank)) !=
            std::string::npos);
    });
  }
}

TEST_CASE("a wait for a connection ends when the job is aborted") {
  for (const Wires wires : kBothKinds) {
    const test::LocalJob job(2, {0, 1});
    Listeners listeners(wires, 2);
    test::run_ranks(2, [&](int rank) {
      const OneRank one(job, listeners, rank, {.secret_seed = rank});
      std::thread aborter;
      if (rank == 0) {
        aborter = std::thread([&] { job.abort().abort({Code::kAborted, "enough"}); });
      }
      CHECK(pass_byte(one.transport(), 1, job.abort()).message() == "enough");
      if (aborter.joinable()) aborter.join();
    });
  }
}

TEST_CASE("transfers wait for a peer whose group is not open yet") {
  for (const Wires wires : {Wires::kUnix, Wires::kTcp, Wires::kHealing}) {
    for (const int late : {0, 1}) {
      CAPTURE(late);
      const test::LocalJob job(2, hosts_for(wires, 2));
      Listeners listeners(wires, 2);
      std::promise<void> posted;
      test::run_ranks(2, [&](int rank) {
        if (rank == late) posted.get_future().wait();
        const OneRank one(job, listeners, rank);
        std::byte byte{7};
        const auto id =
            rank == 0 ? one.transport().send(1, {&byte, 1}) : one.transport().recv(0, {&byte, 1});
        if (rank != late) posted.set_value();
        CHECK(one.transport().wait(id.value(), job.abort()).ok());
        CHECK(byte == std::byte{7});
      });
    }
  }
}

TEST_CASE("a peer that has left the group before they connected is named") {
  for (const Wires wires : kBothKinds) {
    for (const bool ended : {false, true}) {
      for (const int left : {0, 1}) {
        CAPTURE(ended);
        CAPTURE(left);
        const test::LocalJob job(2, {0, 1});
        Listeners listeners(wires, 2);
        std::promise<void> gone;
        std::promise<void> seen;
        test::run_ranks(2, [&](int rank) {
          OneRank one(job, listeners, rank);
          if (rank == left) {
            if (ended) {
              one.end();
            } else {
              one.close_group();
            }
            gone.set_value();
            seen.get_future().wait();
            return;
          }
          gone.get_future().wait();
          const Status status = pass_byte(one.transport(), left, job.abort());
          CHECK(status.code() == Code::kRankFailure);
          CHECK(status.failed_rank()->rank == left);
          CHECK(status.message().find(fmt::format("rank {} (pid ", left)) == 0);
          seen.set_value();
        });
      }
    }
  }
}

TEST_CASE("a forked child that destroys its copy of a group does not end the connections") {
  for (const Wires wires : {Wires::kTcp, Wires::kSealed, Wires::kHealing, Wires::kHealingSealed}) {
    const test::LocalJob job(2, {0, 1});
    Listeners listeners(wires, 2);
    test::run_ranks(2, [&](int rank) {
      OneRank one(job, listeners, rank);
      CHECK(pass_byte(one.transport(), 1, job.abort()).ok());
      if (rank == 0) {
        const pid_t child = ::fork();
        if (child == 0) {
          one.end();
          ::_exit(0);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        CHECK(status == 0);
      }
      CHECK(pass_byte(one.transport(), 0, job.abort()).ok());
      CHECK(pass_byte(one.transport(), 1, job.abort()).ok());
    });
  }
}

TEST_CASE("a peer that dials late and then leaves without a transfer is named") {
  for (const Wires wires : kBothKinds) {
    const test::LocalJob job(2, {0, 1});
    Listeners listeners(wires, 2);
    test::run_ranks(2, [&](int rank) {
      OneRank one(job, listeners, rank);
      if (rank == 1) {
        ::usleep(1'500'000);  // long enough to be watched
        return;
      }
      CHECK(pass_byte(one.transport(), 1, job.abort()).code() == Code::kRankFailure);
    });
  }
}

TEST_CASE("the tcp backend carries messages and offers no collectives") {
  const test::LocalJob job(1);
  Listeners listeners(Wires::kUnix, 1);
  const auto backend = tcp_backend(listeners, 0);
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
